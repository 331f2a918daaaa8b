# zcp for PowerShell: what a script tells the server, and what it asks.
#
#   Import-Module "$env:ZCP_SDK/zcp.psm1"
#   $name = (Get-ZcpArguments).name
#   if (-not (Confirm-Zcp sure "Greet ${name}?")) { Stop-Zcp "nobody wants to greet $name" }
#   Write-ZcpProgress 1 2 'Looking for the words'
#   "Hello $name"
#
# Ask first and act after: a script may be ended at a question and run again from the top
# with the answer in hand. Run by hand, without a server, what is told goes to stderr.
# A question throws [OperationCanceledException] when the user declines or cancels, and
# [NotSupportedException] when there is nobody to ask.

$script:Writer = $null
$script:Reader = $null
$script:Arguments = $null
$script:Utf8 = New-Object System.Text.UTF8Encoding $false

# Windows would otherwise write the answer in the code page of the console.
if ($env:ZCP_OUT) {
    try { [Console]::OutputEncoding = $script:Utf8 } catch { Write-Debug 'there is no console' }
}

# The arguments, from stdin. Without them there, from ARG_NAME as `name`.
function Get-ZcpArguments {
    if ($null -eq $script:Arguments) { $script:Arguments = Read-Arguments }
    $script:Arguments
}

# Tells how far the call is: Write-ZcpProgress 3 10 Reading
function Write-ZcpProgress {
    param([Parameter(Mandatory)][double]$Done, [Nullable[double]]$Total, [string]$Message)
    $amount = if ($null -eq $Total) { "$Done" } else { "$Done/$Total" }
    $line = "progress $amount $Message".TrimEnd()
    Send-Line $line $line
}

# Logs a text, or anything that JSON can hold.
function Write-ZcpLog {
    param(
        [Parameter(Mandatory)]
        [ValidateSet('debug', 'info', 'notice', 'warning',
            'error', 'critical', 'alert', 'emergency')]
        [string]$Level,
        [Parameter(Mandatory)][AllowNull()][AllowEmptyString()][AllowEmptyCollection()]$Data
    )
    $json = ConvertTo-Line $Data
    $shown = if ($Data -is [string]) { $Data } else { $json }
    Send-Line "log $($Level.ToLowerInvariant()) $json" "${Level}: $shown"
}

# Asks the user for a form and returns its content. The schema is a hashtable or JSON;
# without one the form has one text, `answer`.
function Read-ZcpAnswer {
    param(
        [Parameter(Mandatory)][string]$Key,
        [Parameter(Mandatory)][string]$Message,
        $Schema
    )
    if (-not $Schema) {
        $answer = @{ answer = @{ type = 'string' } }
        $Schema = @{ type = 'object'; properties = $answer; required = @('answer') }
    }
    if ($Schema -isnot [string]) { $Schema = ConvertTo-Line $Schema }
    Request-Agreement ask $Key "{`"message`":$(ConvertTo-Line $Message),`"schema`":$Schema}"
}

# Whether the user says yes.
function Confirm-Zcp {
    param([Parameter(Mandatory)][string]$Key, [Parameter(Mandatory)][string]$Message)
    try {
        $null = Read-ZcpAnswer $Key $Message '{"type":"object","properties":{}}'
        $true
    }
    catch [System.OperationCanceledException] { $false }
}

# Asks the user to open a page.
function Open-ZcpPage {
    param(
        [Parameter(Mandatory)][string]$Key,
        [Parameter(Mandatory)][string]$Message,
        [Parameter(Mandatory)][string]$Url
    )
    $body = ConvertTo-Line ([ordered]@{ message = $Message; url = $Url })
    $null = Request-Agreement visit $Key $body
}

# Asks the client's model and returns its text, or with -Raw the whole result. For more than
# a prompt, give the parameters: @{ prompt = '...'; system = '...' } or those of
# sampling/createMessage.
function Invoke-ZcpSample {
    param(
        [Parameter(Mandatory)][string]$Key,
        [Parameter(Mandatory)]$Prompt,
        [int]$MaxTokens = 1000,
        [switch]$Raw
    )
    $params = @{ maxTokens = $MaxTokens }
    if ($Prompt -is [System.Collections.IDictionary]) {
        foreach ($name in $Prompt.Keys) { $params[$name] = $Prompt[$name] }
    }
    else { $params['prompt'] = "$Prompt" }
    $result = Request-Answer sample $Key (ConvertTo-Line $params)
    if ($Raw) { return $result }
    @($result.content | Where-Object { $_.type -eq 'text' } | ForEach-Object { $_.text }) -join "`n"
}

# The client's folders, each with its uri and perhaps a name.
function Get-ZcpRoots {
    param([string]$Key = 'roots')
    (Request-Answer roots $Key).roots
}

# Runs a block once, however often the script runs for this call. What it returns must be
# something JSON can hold, and comes back as JSON gives it back, in the first run too.
function Invoke-ZcpOnce {
    param([Parameter(Mandatory)][string]$Key, [Parameter(Mandatory)][scriptblock]$Action)
    if ($env:ZCP_OUT) {
        $kept = Request-Answer once $Key
        if ($kept.PSObject.Properties['value']) { return $kept.value }
    }
    $json = ConvertTo-Line (& $Action)
    Send-Line "keep $(ConvertTo-Word $Key) $json"
    ("{`"value`":$json}" | ConvertFrom-Json).value
}

# Says that nobody needs to wait: the call goes on as a task.
function Start-ZcpTask { Send-Line 'detach' }

# Tells whoever subscribed that a resource changed.
function Send-ZcpUpdated {
    param([Parameter(Mandatory)][string]$Uri)
    Send-Line "updated $Uri" "updated $Uri"
}

# Adds a text to the answer.
function Add-ZcpText {
    param([Parameter(Mandatory)][AllowEmptyString()][string]$Text)
    Send-Line "text $(ConvertTo-Line $Text)" $Text
}

# Adds a file to the answer.
function Add-ZcpFile {
    [CmdletBinding()]
    param([Parameter(Mandatory)][string]$Path, [string]$Mime)
    # The server does not follow the script's Set-Location.
    $line = "file $($PSCmdlet.GetUnresolvedProviderPathFromPSPath($Path)) $Mime".TrimEnd()
    Send-Line $line $line
}

# Adds a link to the answer.
function Add-ZcpLink {
    param([Parameter(Mandatory)][string]$Uri, [string]$Name)
    $line = "link $($Uri.Replace(' ', '%20')) $Name".TrimEnd()
    Send-Line $line $line
}

# Ends the script: the call failed, and this is why.
function Stop-Zcp {
    param([Parameter(Mandatory)][string]$Message)
    Send-Line "error $Message" "error: $Message"
    exit 1
}

# Sends one line, or shows it when there is no server.
function Send-Line([string]$Line, [string]$Shown) {
    if (-not $env:ZCP_OUT) {
        if ($Shown) { [Console]::Error.WriteLine($Shown) }
        return
    }
    if ($null -eq $script:Writer) { $script:Writer = Open-Channel $env:ZCP_OUT 'Out' }
    $bytes = $script:Utf8.GetBytes(($Line -replace '[\r\n]+', ' ') + "`n")
    $script:Writer.Write($bytes, 0, $bytes.Length)
    $script:Writer.Flush()
}

function Request-Answer([string]$Verb, [string]$Key, [string]$Body) {
    if (-not $env:ZCP_OUT -or -not $env:ZCP_IN) {
        throw [System.NotSupportedException]::new("no server to answer '$Verb $Key'")
    }
    Send-Line ("$Verb $(ConvertTo-Word $Key) $Body".TrimEnd())
    if ($null -eq $script:Reader) {
        $stream = Open-Channel $env:ZCP_IN 'In'
        $script:Reader = [System.IO.StreamReader]::new($stream, $script:Utf8)
    }
    $line = $script:Reader.ReadLine()
    if ($null -eq $line) { throw [System.NotSupportedException]::new('the server went away') }
    $answer = $line | ConvertFrom-Json
    if ($answer.PSObject.Properties['error']) {
        throw [System.NotSupportedException]::new("$($answer.error)")
    }
    $answer
}

function Request-Agreement([string]$Verb, [string]$Key, [string]$Body) {
    $answer = Request-Answer $Verb $Key $Body
    if ($answer.action -ne 'accept') {
        $done = if ($answer.action -eq 'decline') { 'declined' } else { 'cancelled' }
        throw [System.OperationCanceledException]::new("the user $done '$Key'")
    }
    if ($answer.PSObject.Properties['content']) { $answer.content }
}

function Open-Channel([string]$Path, [string]$Direction) {
    # Windows PowerShell refuses to open a pipe as a file.
    if ($Path -like '\\.\pipe\*') {
        $pipe = [System.IO.Pipes.NamedPipeClientStream]::new(
            '.', $Path.Substring(9), [System.IO.Pipes.PipeDirection]$Direction)
        $pipe.Connect(5000)
        return $pipe
    }
    $access = if ($Direction -eq 'Out') { 'Write' } else { 'Read' }
    # A buffer of one byte is none, so that a line is one write.
    [System.IO.FileStream]::new($Path, [System.IO.FileMode]::Open,
        [System.IO.FileAccess]$access, [System.IO.FileShare]::ReadWrite, 1)
}

function Read-Arguments {
    $text = ''
    if ([Console]::IsInputRedirected) {
        $stdin = [System.IO.StreamReader]::new([Console]::OpenStandardInput(), $script:Utf8)
        $text = $stdin.ReadToEnd().Trim()
    }
    if ($text.StartsWith('{')) { return $text | ConvertFrom-Json }
    $named = [ordered]@{}
    foreach ($variable in Get-ChildItem env:ARG_*) {
        $value = $variable.Value
        if ($value) {
            try { $value = ("{`"value`":$value}" | ConvertFrom-Json -ErrorAction Stop).value }
            catch { Write-Debug "$($variable.Name) is a text, not JSON" }
        }
        $named[$variable.Name.Substring(4).ToLowerInvariant()] = $value
    }
    [pscustomobject]$named
}

# A key as one word, and never two keys as the same word.
function ConvertTo-Word([string]$Key) {
    [regex]::Replace($Key, '[%\s]', { param($found) [uri]::EscapeDataString($found.Value) })
}

function ConvertTo-Line($Value) {
    if ($null -eq $Value) { return 'null' }
    # A text read from a file carries notes that Windows PowerShell would write out as well.
    if ($Value -is [string]) { $Value = "$Value" }
    ConvertTo-Json -InputObject $Value -Compress -Depth 10
}

Export-ModuleMember -Function *-Zcp*
