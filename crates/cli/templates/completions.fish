
# Tools, clients and servers, which only the command knows.
complete -c zcp -n "not __fish_use_subcommand" -a "(zcp __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)"
