#compdef weftctl weft-fabric weft-run
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completion of weftctl(8), weft-fabric(8) and weft-run(1) for zsh, in a folder of $fpath as
# _weft. As weft.bash, it asks the programs' own help.

# As _weft_help of weft.bash.
_weft_help() {
	COLUMNS=1000 "$@" -h 2>/dev/null | awk '
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
}

# As in weft.bash, with words and dir as _weft has them.
_weft_named() {
	${words[1]} $dir --json status 2>/dev/null | grep -o '"name":"[^"]*"'"$1" | cut -d'"' -f4
}

_weft() {
	local -a command help commands options wanted takes line dir
	local word i
	command=(${words[1]})
	help=("${(@f)$(_weft_help $command)}")
	if [[ ${command[1]:t} == weft-run ]]; then
		for ((i = 2; i < CURRENT; i++)); do
			if [[ ${words[i]} == -* ]]; then
				# The value of an option.
				(( ! ${help[(I)o ${words[i]} ?*]} )) || (( i++ ))
			else
				# The program, as if it stood alone.
				shift $((i - 1)) words
				(( CURRENT -= i - 1 ))
				_normal
				return
			fi
		done
	fi
	for ((i = 2; i < CURRENT; i++)); do
		word=${words[i]}
		[[ ${words[i - 1]} != --dir ]] || dir=(--dir $word)
		if (( ${help[(Ie)c $word]} )); then
			command+=($word)
			help=("${(@f)$(_weft_help $command)}")
		fi
	done

	local prefix=${words[CURRENT]} prev=${words[CURRENT - 1]} value=0
	for line in $help; do
		line=(${=line})
		case ${line[1]} in
		c) commands+=(${line[2]}) ;;
		o)
			options+=(${line[2]})
			if [[ ${line[2]} == $prev && -n ${line[3]} ]]; then
				value=1
				wanted=(${line[3,-1]})
			fi
			;;
		esac
	done
	if (( ! value )); then
		if [[ $prefix == -* ]]; then
			compadd -- $options
			return
		fi
		for line in $help; do
			line=(${=line})
			[[ ${line[1]} != a ]] || wanted+=(${line[2,-1]})
		done
		takes=($commands)
	fi
	for word in $wanted; do
		case ${words[1]:t}:$word in
		*:FILE | *:TOPOLOGY) _files ;;
		*:PROGRAM) _command_names -e ;;
		*:DIR) _files -/ ;;
		*:PORT) takes+=(/dev/weft[0-9]*(N)) ;;
		# As in weft.bash.
		weft-fabric:NODE) takes+=(${(f)"$(_weft_named '')"}) ;;
		weft-fabric:NODES) takes+=(${(f)"$(_weft_named ',"plugged"')"}) ;;
		weft-fabric:SWITCH) takes+=(${(f)"$(_weft_named ',"ports"')"}) ;;
		weft-fabric:HOST) takes+=(${(f)"$(${words[1]} $dir host list 2>/dev/null | awk 'NR > 1 { print $1 }')"}) ;;
		*:ENDPOINT | *:HOST) takes+=(${(f)"$(${words[1]} --json tree 2>/dev/null | grep -o '"name":"[^"]*","hwid":"[^"]*","lid":[0-9]*,"kind":"'${(L)word}'"' | cut -d'"' -f4)"}) ;;
		*:END) takes+=(${(f)"$(${words[1]} $dir --json status 2>/dev/null | grep -o '"[^" ]*:[0-9][0-9]*"' | tr -d '"' | sort -u)"}) ;;
		*[A-Z]) ;;
		*) takes+=($word) ;;
		esac
	done
	(( ! ${#takes} )) || compadd -- $takes
}
_weft "$@"
