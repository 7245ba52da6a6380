# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completion of weftctl(8), weft-fabric(8) and weft-run(1) for fish, in a folder of
# $fish_complete_path as weftctl.fish, weft-fabric.fish and weft-run.fish. As weft.bash, it asks
# the programs' own help.

# As _weft_help of weft.bash.
function __weft_help
    COLUMNS=1000 command $argv -h 2>/dev/null | awk '
        function words(line) {
            if (!match(line, /\[possible values: [^]]*\]/)) return ""
            line = substr(line, RSTART + 18, RLENGTH - 19)
            gsub(/,/, "", line)
            return " " line
        }
        /^[A-Z][a-z]+:/ { section = $1 }
        section == "Commands:" && /^  [a-z]/ { print "c", $1 }
        section == "Options:" && match($0, /--[a-z-]+( \[?<[A-Z_]+>)?/) {
            option = substr($0, RSTART, RLENGTH)
            gsub(/[[<>]/, "", option)
            print "o", option words($0)
        }
        section == "Arguments:" && match($0, /^  [[<][A-Z_]+/) {
            print "a", substr($0, 4, RLENGTH - 3) words($0)
        }'
end

# As _weft_named of weft.bash.
function __weft_named
    command $argv[2..] --json status 2>/dev/null | grep -o '"name":"[^"]*"'$argv[1] | cut -d'"' -f4
end

function __weft_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l command $words[1]
    set -l help (__weft_help $command)
    if string match -qr '(^|/)weft-run$' -- $command
        set -l takes 0
        for i in (seq 2 (count $words))
            if test $takes = 1
                set takes 0
            else if string match -q -- '-*' $words[$i]
                # The value of an option.
                if string match -qr -- '^o '(string escape --style=regex -- $words[$i])' .' $help
                    set takes 1
                end
            else
                # The program, as if it stood alone.
                complete -C (string join ' ' -- (string escape -- $words[$i..]) $current)
                return
            end
        end
    end
    set -l dir
    set -l previous
    for word in $words[2..]
        if test "$previous" = --dir
            set dir --dir $word
        end
        set previous $word
        if contains -- "c $word" $help
            set -a command $word
            set help (__weft_help $command)
        end
    end

    set -l wanted
    set -l value 0
    for line in $help
        set -l part (string split ' ' -- $line)
        if test $part[1] = o; and test "$part[2]" = "$previous"; and set -q part[3]
            set value 1
            set wanted $part[3..]
        end
    end
    if test $value = 0
        if string match -q -- '-*' $current
            string replace -rf '^o (\S+).*' '$1' -- $help
            return
        end
        string replace -rf '^c (\S+)$' '$1' -- $help
        for line in (string replace -rf '^a ' '' -- $help)
            set -a wanted (string split ' ' -- $line)
        end
    end
    for word in $wanted
        switch $word
            case FILE TOPOLOGY
                __fish_complete_path $current
            case PROGRAM
                __fish_complete_command
            case DIR
                __fish_complete_directories $current
            case PORT
                string match '/dev/weft*' /dev/*
            # As in weft.bash.
            case NODE
                __weft_named '' $words[1] $dir
            case NODES
                __weft_named ',"plugged"' $words[1] $dir
            case SWITCH
                __weft_named ',"ports"' $words[1] $dir
            case ENDPOINT HOST
                if string match -qr '(^|/)weft-fabric$' -- $words[1]
                    command $words[1] $dir host list 2>/dev/null | awk 'NR > 1 { print $1 }'
                    continue
                end
                command $words[1] --json tree 2>/dev/null | grep -o '"name":"[^"]*","hwid":"[^"]*","lid":[0-9]*,"kind":"'(string lower $word)'"' | cut -d'"' -f4
            case END
                command $words[1] $dir --json status 2>/dev/null | grep -o '"[^" ]*:[0-9][0-9]*"' | tr -d '"' | sort -u
            case '*'
                if test (string upper -- $word) != $word
                    echo $word
                end
        end
    end
end

complete -c weftctl -f -a '(__weft_complete)'
complete -c weft-fabric -f -a '(__weft_complete)'
complete -c weft-run -f -a '(__weft_complete)'
