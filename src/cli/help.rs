//! What `--help` and `--version` print.

/// `--help`.
pub(super) const ALL: &str = "\
Usage: oarbank-agent COMMAND ...
       oarbank-agent --help | --version

Confines a program with Landlock, seccomp and no_new_privs.

Commands:
  sandbox-exec POLICY.json -- ARGV...             become ARGV under the policy
  sandbox-run [OPTIONS] POLICY.json -- ARGV...    run ARGV under the policy, as its parent
  sandbox-verify PID                              whether a process is confined
  sandbox-report [--json | --text]                what this host can enforce
  sandbox-check [--json] POLICY.json [-- ARGV...] what a launch would do
  sandbox-audit [--text | --json | --bpf] [POLICY.json]
                                                  every system call, of both sides

`oarbank-agent COMMAND --help` tells more.
";

/// The policy, as the commands that read one explain it.
macro_rules! policy {
    () => {
        "\
Policy, one JSON object (every field may be missing):
  module         string           a label
  ro             list of paths    read and execute
  rw             list of paths    every file right; execute only with exec_rw
  rd             list of paths    read files and list
  wo             list of paths    make files and directories, write, truncate
  net            string           \"none\" (default) or \"egress-allowlist\"
  proxy_port     1-65535 or null  the one TCP port of egress-allowlist
  broker_socket  path or null     the one unix socket to connect to
  gpu            bool             GPU device nodes
  exec_rw        bool             files in rw may be executed
  kind           string           a label
  exe            path or null     a program file: read and execute

Environment:
  OARBANK_CONFINED=N   descriptor N (above 2) gets one byte once the sandbox holds
  OARBANK_...=fd:N     descriptor N (socket, pipe or regular file) is passed on;
                       every other one from 3 up is closed
"
    };
}

/// `sandbox-exec --help`.
pub(super) const EXEC: &str = concat!(
    "\
Usage: oarbank-agent sandbox-exec POLICY.json -- ARGV...
       oarbank-agent sandbox-exec --help | --version

Applies the policy to this process, then becomes ARGV. ARGV[0] is an absolute path.
What can't be applied in full ends the launch; nothing of the program has run then.

",
    policy!(),
    "
Exit status: that of ARGV, or
  64  usage
  70  something could not be applied in full
  71  everything was applied, and the exec failed
"
);

/// `sandbox-run --help`.
pub(super) const RUN: &str = concat!(
    "\
Usage: oarbank-agent sandbox-run [OPTIONS] POLICY.json -- ARGV...
       oarbank-agent sandbox-run --help | --version

Runs ARGV under the policy in a session of its own, after it was seen to be confined,
and ends whatever it leaves behind. ARGV[0] is an absolute path.

Options:
  --cpu-max CORES      processor time, 0.01 or more (cpu.max)
  --memory-max SIZE    bytes, or K, M, G, T of 1024 (memory.max, and no swap)
  --pids-max N         processes and threads (pids.max)
  --timeout SECONDS    then the program is asked to end (SIGTERM)
  --grace SECONDS      how long after that everything is killed; default 10
  --cgroup auto        a leaf of this process's cgroup if it can be; else, and if no
                       limit was asked for, the process group and all descendants
  --cgroup none        no cgroup
  --cgroup DIR         a leaf of this cgroup
  --status-fd N        descriptor N (above 2) is told what happens, in JSON lines
  --explain-denials    what was denied, why, and which field of the policy would
                       allow it is told on standard error; =FILE appends it to a
                       file, =fd:N tells descriptor N (above 2)
  --json               with --explain-denials: in JSON lines

TERM, INT, HUP and QUIT are passed on to the process group and start --grace; TSTP
freezes everything, CONT thaws it.

",
    policy!(),
    "
Exit status: that of ARGV, or
  64     usage
  70     something could not be applied in full
  71     everything was applied, and the exec failed
  124    --timeout
  128+N  ended by signal N
"
);

/// `sandbox-verify --help`.
pub(super) const VERIFY: &str = "\
Usage: oarbank-agent sandbox-verify PID
       oarbank-agent sandbox-verify --help | --version

Tells whether a process has no_new_privs and a seccomp filter, which sandbox-exec sets
before its exec: after the byte on OARBANK_CONFINED, this can be relied on.

Exit status:
  0   it is confined
  1   it is not
  64  usage
  70  that can't be told
";

/// `sandbox-report --help`.
pub(super) const REPORT: &str = "\
Usage: oarbank-agent sandbox-report [--json | --text]
       oarbank-agent sandbox-report --help | --version

Tells what this host can enforce. Every capability is tried now, in confined children
and with a file in /tmp, /var/tmp, /run, /dev/shm or /, all of which are gone afterwards.

Options:
  --json   one JSON object; the default unless standard output is a terminal
  --text   for reading

Exit status:
  0   there is a backend
  1   there is none: nothing is enforced, and every launch would exit with 70
  64  usage
  70  the report can't be written
";

/// `sandbox-check --help`.
pub(super) const CHECK: &str = "\
Usage: oarbank-agent sandbox-check [--json] POLICY.json [-- ARGV...]
       oarbank-agent sandbox-check --help | --version

Tells what sandbox-exec would do with this policy and, after --, this program, and what
is likely wrong. The rules are made and tried in a child; no instruction of ARGV runs.

Options:
  --json   one JSON object

Exit status: that of sandbox-exec at that point, with the same message
  0   the program would run
  64  usage
  70  something could not be applied in full
  71  the exec would fail
";

/// `sandbox-audit --help`.
pub(super) const AUDIT: &str = "\
Usage: oarbank-agent sandbox-audit [--text | --json | --bpf] [POLICY.json]
       oarbank-agent sandbox-audit --help | --version

Tells the system calls that the launcher makes, step by step, what becomes of each one
that a module makes, and the filter itself. The filter is that of the policy; without
one, that of an empty policy.

Options:
  --text   for reading; the default
  --json   one JSON object
  --bpf    the filter alone, struct sock_filter after struct sock_filter, as the
           kernel gets it (bwrap --seccomp FD, setpriv --seccomp-filter FILE)

Exit status:
  0   it was printed
  64  usage
  70  the policy can't be read or is wrong, or the output can't be written
";

/// `--version`.
pub(super) const VERSION: &str = concat!("oarbank-agent ", env!("CARGO_PKG_VERSION"), "\n");

/// The commands and options that a help text has: in its usage, and where a line of it explains one.
pub(super) fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    let (usage, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let explained = rest.lines().filter_map(|line| line.strip_prefix("  "));
    usage
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
        .chain(explained.filter_map(|line| line.split(' ').next()))
        .filter(|word| {
            let option = word.strip_prefix("--").is_some_and(|name| !name.is_empty());
            option || word.starts_with("sandbox-")
        })
}
