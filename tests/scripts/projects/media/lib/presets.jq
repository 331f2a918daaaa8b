# Name and width of every preset, with a tab between them.
.presets as $all
| if ($all | type) != "object" or ($all | length) == 0 then
    error("presets.json names no presets")
  else
    $all | to_entries[] | "\(.key)\t\(.value.width // 0)"
  end
