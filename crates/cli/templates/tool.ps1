# Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)
#
# @param name string            Who to greet.
# @param loud boolean = false   Whether to shout.
# @read-only

Import-Module "$env:ZCP_SDK/zcp.psm1"

$arguments = Get-ZcpArguments
$greeting = "Hello, $($arguments.name)!"
if ($arguments.loud) { $greeting.ToUpper() } else { $greeting }
