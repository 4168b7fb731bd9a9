//! Real programs in the sandbox.

mod support;

use std::path::Path;

use support::{Outcome, Policy, Scene, as_each, skip};

/// A program of the base system; says so when it is missing.
fn have(program: &str) -> bool {
    let here = Path::new(program).exists();
    if !here {
        skip(&format!("no {program}"));
    }
    here
}

/// A program in a writable directory, with that directory as home, working directory and for
/// temporary files.
fn run_in(scene: &Scene, work: &str, policy: &Policy, argv: &[&str]) -> Outcome {
    scene
        .confined(policy, argv)
        .cwd(work)
        .env("HOME", work)
        .env("TMPDIR", work)
        .run()
}

/// One work directory, granted as `rw`.
fn desk(scene: &Scene) -> (String, Policy) {
    let work = scene.dir("work");
    let policy = Policy::new().rw(&work);
    (work, policy)
}

#[test]
fn shell_pipelines() {
    as_each(|scene| {
        let (work, policy) = desk(scene);
        let script = r#"
            set -e
            seq 1 100 | sort -rn | head -n 3 | tr '\n' ' ' > list
            cat list
            (cd / && pwd)
            for n in 1 2 3; do echo $n & done | sort | tr '\n' ' '
            wait
            trap 'echo caught' USR1; kill -USR1 $$
            mkdir -p a/b; touch a/b/c; find . -name c; rm -r a
            cat <<END
here
END
            x=$(date +%Y); [ "$x" -gt 2000 ]
            sleep 60 & kill $!
            echo done
        "#;
        for shell in ["/bin/sh", "/bin/bash"] {
            let outcome = run_in(scene, &work, &policy, &[shell, "-c", script]);
            assert_eq!(
                outcome.success(),
                "100 99 98 /\n1 2 3 caught\n./a/b/c\nhere\ndone\n",
                "{outcome:?}"
            );
        }
    });
}

const PYTHON: &str = "/usr/bin/python3";

#[track_caller]
fn python(scene: &Scene, program: &str, expected: &str) {
    if have(PYTHON) {
        let (work, policy) = desk(scene);
        let outcome = run_in(scene, &work, &policy, &[PYTHON, "-c", program]);
        assert_eq!(outcome.success(), expected, "{outcome:?}");
    }
}

#[test]
fn python_subprocess() {
    let program = "
import subprocess, sys
print(subprocess.run(['/bin/echo', 'hello'], capture_output=True, text=True).stdout, end='')
print(subprocess.run('echo $((6*7)) | cat', shell=True, capture_output=True, text=True).stdout, end='')
p = subprocess.Popen([sys.executable, '-c', 'import sys; print(sys.stdin.read().upper(), end=\"\")'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(p.communicate('words')[0])
try:
    subprocess.run(['/bin/sleep', '60'], timeout=0.1)
except subprocess.TimeoutExpired:
    print('timeout')
p = subprocess.Popen(['/bin/sleep', '60'], start_new_session=True, close_fds=True)
p.terminate(); print(p.wait())
";
    as_each(|scene| python(scene, program, "hello\n42\nWORDS\ntimeout\n-15\n"));
}

#[test]
fn python_threads() {
    let program = "
import threading, queue, concurrent.futures, signal, time
q = queue.Queue()
threads = [threading.Thread(target=lambda n=n: q.put(n * n)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sum(q.get() for _ in range(20)))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda n: n + 1, range(100))))
signal.signal(signal.SIGALRM, lambda *_: print('alarm'))
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
";
    as_each(|scene| python(scene, program, "2470\n5050\nalarm\n"));
}

#[test]
fn python_asyncio() {
    let program = "
import asyncio
async def main():
    print(sum(await asyncio.gather(*(double(n) for n in range(10)))))
    p = await asyncio.create_subprocess_exec('/bin/cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    print((await p.communicate(b'through'))[0])
    print(await asyncio.to_thread(lambda: 'thread'))
    p = await asyncio.create_subprocess_shell('exit 3'); print(await p.wait())
async def double(n):
    await asyncio.sleep(0.001)
    return 2 * n
asyncio.run(main())
";
    as_each(|scene| python(scene, program, "90\nb'through'\nthread\n3\n"));
}

#[test]
fn python_multiprocessing_over_pipes() {
    let program = "
import multiprocessing as mp
def work(connection):
    connection.send([n * n for n in connection.recv()])
def run(kind):
    context = mp.get_context(kind)
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,))
    process.start(); ours.send(list(range(5))); print(ours.recv()); process.join(); print(process.exitcode)
if __name__ == '__main__':
    run('fork')
    run('spawn')
";
    // `spawn` needs a file to import.
    as_each(|scene| {
        if have(PYTHON) {
            let (work, policy) = desk(scene);
            let file = scene.file("work/program.py", program);
            let outcome = run_in(scene, &work, &policy, &[PYTHON, &file]);
            assert_eq!(
                outcome.success(),
                "[0, 1, 4, 9, 16]\n0\n".repeat(2),
                "{outcome:?}"
            );
        }
    });
}

#[test]
fn python_writes_files_and_uses_sqlite() {
    let program = "
import os, tempfile, shutil, sqlite3, mmap, socket, select
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, 'a'), 'w').write('x' * 10000)
    shutil.copy2(os.path.join(d, 'a'), os.path.join(d, 'b')); os.replace(os.path.join(d, 'b'), os.path.join(d, 'c'))
    print(sorted(os.listdir(d)))
    db = sqlite3.connect(os.path.join(d, 'db')); db.execute('create table t (x)'); db.execute('insert into t values (7)'); db.commit()
    print(db.execute('select x from t').fetchone())
with tempfile.TemporaryFile() as f:
    f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); m[:3] = b'abc'; print(m[:3])
a, b = socket.socketpair(); a.sendall(b'pair'); print(b.recv(9))
";
    as_each(|scene| python(scene, program, "['a', 'c']\n(7,)\nb'abc'\nb'pair'\n"));
}

#[test]
fn node_with_a_worker() {
    let program = r#"
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFile, spawnSync } = require('child_process');
const fs = require('fs');
if (isMainThread) {
  const worker = new Worker(__filename, { workerData: 20 });
  worker.on('message', (sum) => {
    console.log('worker', sum);
    execFile('/bin/echo', ['child'], (error, out) => {
      console.log(error, out.trim());
      console.log(spawnSync('/bin/sh', ['-c', 'exit 5']).status);
      fs.promises.writeFile('file', 'text').then(() => fs.promises.readFile('file', 'utf8')).then(console.log);
    });
  });
} else {
  let sum = 0;
  for (let n = 0; n <= workerData; n++) sum += n;
  parentPort.postMessage(sum);
}
"#;
    as_each(|scene| {
        if have("/usr/bin/node") {
            let (work, policy) = desk(scene);
            let file = scene.file("work/program.js", program);
            let outcome = run_in(scene, &work, &policy, &["/usr/bin/node", &file]);
            assert_eq!(
                outcome.success(),
                "worker 210\nnull child\n5\ntext\n",
                "{outcome:?}"
            );
        }
    });
}

#[test]
fn git_commits_and_clones() {
    let script = r#"
        set -e
        git init -q repository && cd repository
        git config user.name Name && git config user.email name@example.test
        echo one > file && git add file && git commit -q -m first
        echo two >> file && git commit -q -am second
        git checkout -q -b side HEAD~1 && echo side > side && git add side && git commit -q -m side
        git merge -q -m merged - && git log --format=%s | sort
        git gc -q && git fsck 2>&1 | grep -v notice || true
        cd .. && git clone -q repository copy && git -C copy status --porcelain && cat copy/file
        git -C copy stash list && git -C repository archive HEAD | tar t
    "#;
    as_each(|scene| {
        let git = ["/usr/local/bin/git", "/usr/bin/git"]
            .into_iter()
            .find(|git| Path::new(git).exists());
        if git.is_none() {
            return skip("no git");
        }
        let (work, policy) = desk(scene);
        let outcome = run_in(scene, &work, &policy, &["/bin/sh", "-c", script]);
        assert_eq!(
            outcome.success(),
            "first\nmerged\nsecond\nside\none\ntwo\nfile\nside\n",
            "{outcome:?}"
        );
    });
}

#[test]
fn gcc_and_its_output() {
    as_each(|scene| {
        if !have("/usr/bin/gcc") {
            return;
        }
        let (work, policy) = desk(scene);
        scene.file(
            "work/program.c",
            "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 6 * 7); return 0; }\n",
        );
        let compile = ["/usr/bin/gcc", "-O1", "-pipe", "-o", "program", "program.c"];
        run_in(scene, &work, &policy, &compile).success();
        let program = format!("{work}/program");
        let script = ["/bin/sh", "-c", "./program"];
        // The shell's own code for a program that it may not execute.
        let refused = run_in(scene, &work, &policy, &script);
        assert_eq!(
            (refused.code, refused.out.len()),
            (Some(126), 0),
            "{refused:?}"
        );
        run_in(scene, &work, &policy, &[&program]).refused(71, "exec", &["EACCES"]);
        assert_eq!(
            run_in(scene, &work, &policy.clone().exec_rw(), &script).success(),
            "42\n"
        );
        assert_eq!(
            run_in(scene, &work, &policy.exec_rw(), &[&program]).success(),
            "42\n"
        );
        assert_eq!(scene.plain(&[&program]).run().success(), "42\n");
    });
}

#[test]
fn tar_and_cp_keep_everything() {
    let script = r#"
        set -e
        mkdir -p tree/sub && echo text > tree/file && ln tree/file tree/hard && ln -s file tree/soft && chmod 640 tree/file && mkfifo tree/fifo
        touch -d '2001-02-03 04:05:06' tree/sub tree/file
        tar czf tree.tgz tree && mkdir out && tar xzpf tree.tgz -C out
        cp -a tree copy
        for t in out/tree copy; do
            stat -c '%n %a %h %F' $t/file $t/soft $t/fifo | sed "s,$t/,,"
            [ "$(stat -c %Y $t/file)" = "$(stat -c %Y tree/file)" ] && cat $t/soft
        done
        mv copy moved && rm -r moved out
    "#;
    let one = "file 640 2 regular file\nsoft 777 1 symbolic link\nfifo 644 1 fifo\ntext\n";
    as_each(|scene| {
        let (work, policy) = desk(scene);
        let run = scene
            .confined(&policy, &["/bin/sh", "-c", script])
            .cwd(&work)
            .with(|| {
                // SAFETY: one call that is safe after fork.
                unsafe { libc::umask(0o022) };
                Ok(())
            });
        let outcome = run.run();
        assert_eq!(outcome.success(), one.repeat(2), "{outcome:?}");
    });
}

#[test]
fn java_compiles_and_runs_with_threads() {
    let program = r#"
import java.nio.file.*;
import java.util.concurrent.*;
public class Program {
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        System.out.println(pool.submit(() -> 6 * 7).get());
        pool.shutdown();
        Process child = new ProcessBuilder("/bin/echo", "child").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        Files.writeString(Path.of("file"), "text");
        System.out.println(Files.readString(Path.of("file")) + child.waitFor());
    }
}
"#;
    as_each(|scene| {
        let homes = ["/usr/bin/java", "/usr/bin/javac"];
        if !homes.into_iter().all(have) {
            return;
        }
        let (work, policy) = desk(scene);
        scene.file("work/Program.java", program);
        let java = |argv: &[&str]| run_in(scene, &work, &policy, argv).success();
        let temporary = format!("-Djava.io.tmpdir={work}");
        java(&["/usr/bin/javac", &format!("-J{temporary}"), "Program.java"]);
        assert_eq!(
            java(&[
                "/usr/bin/java",
                "-Xshare:auto",
                &temporary,
                "-cp",
                ".",
                "Program"
            ]),
            "42\nchild\ntext0\n"
        );
    });
}

#[test]
fn perl_awk_and_the_rest() {
    let script = r#"
        set -e
        perl -e 'my $pid = fork; if (!$pid) { exit 3 } waitpid $pid, 0; print $? >> 8, "\n"; print `echo back`'
        echo '3 4' | awk '{ print $1 * $2 | "cat" }'
        printf 'b\na\n' | xargs -n 1 -P 2 echo | sort | tr '\n' ' '
        echo text | gzip | gunzip | sed s/t/T/
        timeout 5 true && nice true && env -i /bin/echo end
    "#;
    as_each(|scene| {
        let (work, policy) = desk(scene);
        let outcome = run_in(scene, &work, &policy, &["/bin/sh", "-c", script]);
        assert_eq!(
            outcome.success(),
            "3\nback\n12\na b Text\nend\n",
            "{outcome:?}"
        );
    });
}
