# Does one of the things that scripts can.
#
# @param do string        Which.
# @param [about] string   A file or an address to do it with.
set -euo pipefail
source "$ZCP_SDK/zcp.sh"

about=$(zcp_arg about)
name='{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'

case $(zcp_arg do) in
    progress)
        zcp_progress 1/4 begun
        sleep 0.1
        zcp_progress 2.5/4
        sleep 0.1
        zcp_progress 4/4 all done
        echo told
        ;;
    log)
        zcp_log info starting
        zcp_log warning '{"disk": 91}'
        echo told
        ;;
    content)
        echo '{"city":"Oslo"}'
        zcp_text and "more"
        zcp_file files/dot.png
        zcp_file files/tone.wav
        zcp_file files/note.txt
        zcp_link https://example.com/map Map
        ;;
    print) cat "$about" ;;
    ask) zcp_ask name 'Your name?' "$name" || echo "status $?" ;;
    confirm) zcp_confirm sure 'Sure?' && echo yes || echo "status $?" ;;
    visit) zcp_visit page 'Please sign.' "$about" && echo visited || echo "status $?" ;;
    sample) zcp_sample joke 'A joke, please.' 50 || echo "status $?" ;;
    roots) zcp_roots || echo "status $?" ;;
    once)
        echo run >>"$about"
        runs=$(zcp_once runs grep -c '' "$about")
        zcp_confirm sure 'Sure?'
        echo "$runs"
        ;;
    twice) echo "$(zcp_once word echo first) $(zcp_once word echo second)" ;;
    updated) zcp_updated "$about" ;;
    detach)
        zcp_detach
        sleep 0.5
        echo done
        ;;
    exit)
        echo half done
        echo 'no such city' >&2
        exit 3
        ;;
    fail) zcp_fail 'Give a city.' ;;
esac
