Print what a shell needs to complete this command's words

Usage: zcp completions [OPTIONS] <SHELL>

Arguments:
  <SHELL>  Which shell [possible values: bash, zsh, fish, powershell, elvish]

Options:
      --json                 Print JSON for programs instead of words for people
      --log <LEVEL>          What to log to standard error: error, warn, info, debug, trace, or a tracing filter. Default: warn, and one line for each call with `zcp serve` over HTTP
      --log-format <FORMAT>  How to write log lines: text with the time, json, or plain without the time. Default: plain with `zcp run`, json with --json, and text otherwise [possible values: text, json, plain]
  -h, --help                 Print help

Examples:
  zcp completions bash > ~/.local/share/bash-completion/completions/zcp
  zcp completions zsh > "${fpath[1]}/_zcp"
  zcp completions fish > ~/.config/fish/completions/zcp.fish
