# fish completion of oarbank-agent(8). Commands and options are asked of the program, so that they are never out of step.

# Whether the words so far are in a part: the command, the options and the policy, or the program.
function __oarbank_agent_part
    set -l words (commandline -opc)
    if test (count $words) -eq 1
        test $argv[1] = command
    else if contains -- -- $words
        test $argv[1] = program
    else
        test $argv[1] = options
    end
end

function __oarbank_agent_options
    set -l words (commandline -opc)
    command $words[1] $words[2] --help 2>/dev/null | string replace -rf '^  (--[a-z-]+) +' '$1\t'
    printf '%s\n' --help --version
end

function __oarbank_agent_commands
    set -l words (commandline -opc)
    command $words[1] --help 2>/dev/null | string replace -rf '^  (sandbox-[a-z]+) +' '$1\t'
    printf '%s\n' --help --version
end

complete -c oarbank-agent -n '__oarbank_agent_part command' -f -a '(__oarbank_agent_commands)'
complete -c oarbank-agent -n '__oarbank_agent_part options' -a '(__oarbank_agent_options)'
complete -c oarbank-agent -n '__oarbank_agent_part program' -F
