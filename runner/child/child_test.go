//go:build linux

package child

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the programs that the tests start. A role is a word in roleVar, with options after commas.
const roleVar = "CHILD_TEST_ROLE"

// patience bounds waiting for what must happen; a test that is stopped by it has failed.
const patience = time.Minute

func TestMain(m *testing.M) {
	MaybeWatchdog()
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the programs that we start: no second of sleep when they end
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(strings.Split(role, ",")))
	}
	os.Exit(m.Run())
}

func play(words []string) int {
	has := func(w string) bool { return slices.Contains(words, w) }
	if has("deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	switch words[0] {
	case "owner": // starts a tree through Start; "bare" = without a watchdog, "remember" = calls Remember
		return playOwner(has("bare"), has("remember"), words[1:])
	case "tree": // forks three leaves: one like itself, one without the mark, one that left the group
		if !has("few") {
			spawn("leaf,like", nil, words)
			spawn("leaf,away", &syscall.SysProcAttr{Setsid: true}, words)
		}
		spawn("leaf,unmarked", nil, words)
		if has("quit") {
			say("tree")
			return 0
		}
	case "headless": // goes on without its main thread
		onMainThread(func() { syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) })
	case "exit":
		n, _ := strconv.Atoi(words[1])
		return n
	case "chatty":
		fmt.Println(strings.Repeat("x", 1<<20))
		fmt.Fprintln(os.Stderr, "end")
		return 0
	}
	say(words[0])
	time.Sleep(2 * patience) // never longer than a broken test
	return 0
}

func say(who string) { fmt.Printf("%s %d\n", who, os.Getpid()) }

// spawn starts a leaf that says its own pid, and waits until it has.
func spawn(role string, attr *syscall.SysProcAttr, words []string) {
	if slices.Contains(words, "deaf") {
		role += ",deaf"
	}
	cmd := self(role)
	if strings.Contains(role, "unmarked") {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, ownerVar) })
	}
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	fmt.Print(strings.Replace(line, "leaf", strings.Split(role, ",")[1], 1))
}

func playOwner(bare, remember bool, words []string) int {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	p, err := Start(Options{
		Argv: []string{os.Args[0]}, Env: append(os.Environ(), roleVar+"=tree,"+strings.Join(words, ",")),
		Stdout: w, StateDir: os.Getenv("CHILD_TEST_STATE"), Label: "tree", Port: 4711, NoWatchdog: bare,
	})
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(r)
	for in.Scan() {
		fmt.Println(in.Text())
		if strings.HasPrefix(in.Text(), "tree") {
			break
		}
	}
	if remember {
		if err := p.Remember(); err != nil {
			panic(err)
		}
	}
	if p.dog != nil {
		fmt.Println("watchdog", p.dog.cmd.Process.Pid)
	}
	say("owner")
	time.Sleep(2 * patience)
	return 0
}

func self(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0]}
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return cmd
}

// onMainThread runs f, which ends the thread, on the main thread.
func onMainThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			f()
		}
		onMainThread(f) // this thread stays taken, so the next goroutine gets another one
		select {}
	}()
}

// cast is who is on stage: what each process said it is.
type cast map[string]proc

// listen reads "who pid" lines until last has spoken.
func listen(t *testing.T, r io.Reader, last string) cast {
	t.Helper()
	c := cast{}
	in := bufio.NewScanner(r)
	for in.Scan() {
		who, pid, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatalf("unexpected output %q", in.Text())
		}
		p, err := readProc(n)
		if err != nil {
			t.Fatalf("%s: %v", in.Text(), err)
		}
		c[who] = p
		if who == last {
			return c
		}
	}
	t.Fatalf("output ended before %q: %v", last, in.Err())
	return nil
}

func running(p proc) bool {
	now, err := readProc(p.pid)
	return err == nil && now.start == p.start && !now.dead()
}

func (c cast) running() (who []string) {
	for name, p := range c {
		if running(p) {
			who = append(who, name)
		}
	}
	slices.Sort(who)
	return who
}

func (c cast) mustBeGone(t *testing.T) {
	t.Helper()
	if left := c.running(); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// eventually polls; for what another process does, of which nothing tells us.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func startRole(t *testing.T, dir, role string) (*Proc, io.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Options{Argv: []string{os.Args[0]}, Env: append(os.Environ(), roleVar+"="+role), Stdout: w, Stderr: os.Stderr, StateDir: dir, Label: role})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		r.Close()
	})
	return p, r
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("state folder: %v, %v; want it empty", entries, err)
	}
}

func TestStopSuccess(t *testing.T) {
	for _, c := range []struct {
		role   string
		grace  time.Duration
		signal string
	}{
		{"leaf", patience, "SIGTERM"},
		{"tree", patience, "SIGTERM"},
		{"leaf,deaf", 0, "SIGKILL"},
		{"tree,deaf", 0, "SIGKILL"},
	} {
		t.Run(c.role, func(t *testing.T) {
			dir := t.TempDir()
			p, out := startRole(t, dir, c.role)
			who := listen(t, out, strings.Split(c.role, ",")[0])
			members, err := p.Members()
			if err != nil || len(members) != len(who) {
				t.Errorf("members %v, %v; want the %d of %v", members, err, len(who), who)
			}
			if p.PID() != members[0] || p.StartedAt().IsZero() {
				t.Errorf("pid %d, started %v", p.PID(), p.StartedAt())
			}
			if err := p.Stop(context.Background(), c.grace); err != nil {
				t.Fatal(err)
			}
			who.mustBeGone(t)
			if got, want := p.Exit(), (Exit{Code: -1, Signal: c.signal, Asked: true}); got != want {
				t.Errorf("exit %+v, want %+v", got, want)
			}
			select {
			case <-p.dog.done:
			default:
				t.Error("the watchdog is left")
			}
			mustBeEmpty(t, dir)
			if err := p.Stop(context.Background(), 0); err != nil {
				t.Errorf("second Stop: %v", err)
			}
		})
	}
}

// The process table shows the state of a main thread. One that has ended does not mean that the process has.
func TestStopWithoutMainThread(t *testing.T) {
	p, out := startRole(t, t.TempDir(), "headless")
	who := listen(t, out, "headless")
	eventually(t, "the main thread ends", func() bool {
		now, err := readProc(p.PID())
		return err == nil && now.state == 'Z'
	})
	if members, err := p.Members(); err != nil || !slices.Equal(members, []int{p.PID()}) {
		t.Errorf("members %v, %v; want the process itself", members, err)
	}
	if err := p.Stop(context.Background(), patience); err != nil {
		t.Fatal(err)
	}
	who.mustBeGone(t)
}

// An hour of grace is over when the context is; all callers wait for the same end.
func TestStopCancelled(t *testing.T) {
	p, out := startRole(t, t.TempDir(), "tree,deaf")
	who := listen(t, out, "tree")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := p.Stop(ctx, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	who.mustBeGone(t)
}

func TestUnaskedExit(t *testing.T) {
	for _, c := range []struct {
		role string
		want Exit
	}{
		{"exit,0", Exit{}},
		{"exit,3", Exit{Code: 3}},
		{"tree,quit,deaf", Exit{}}, // leaves three processes behind that must go
	} {
		t.Run(c.role, func(t *testing.T) {
			dir := t.TempDir()
			p, out := startRole(t, dir, c.role)
			var who cast
			if strings.HasPrefix(c.role, "tree") {
				// The last line comes from a process that may be gone when it is read.
				who = listen(t, out, "unmarked")
			}
			<-p.Done()
			if got := p.Exit(); got != c.want {
				t.Errorf("exit %+v, want %+v", got, c.want)
			}
			who.mustBeGone(t)
			mustBeEmpty(t, dir)
		})
	}
}

func TestKilledChild(t *testing.T) {
	p, out := startRole(t, t.TempDir(), "leaf")
	listen(t, out, "leaf")
	if got := p.Exit(); got != (Exit{}) {
		t.Errorf("exit %+v while it runs", got)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got, want := p.Exit(), (Exit{Code: -1, Signal: "SIGKILL"}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}

func TestStartFailure(t *testing.T) {
	f := func(name string, o Options, want string) {
		t.Helper()
		p, err := Start(o)
		if err == nil {
			p.Stop(context.Background(), 0)
			t.Fatalf("%s: started", name)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, want %q in it", name, err, want)
		}
	}
	dir := t.TempDir()
	f("no command", Options{StateDir: dir}, "no command")
	f("no state folder", Options{Argv: []string{"true"}}, "no state folder")
	f("no program", Options{Argv: []string{"/nonexistent/engine"}, StateDir: dir, Label: "vllm"}, "fork/exec /nonexistent/engine: no such file")
	f("not in PATH", Options{Argv: []string{"no-such-engine"}, StateDir: dir}, "not found in $PATH")
	f("no folder to work in", Options{Argv: []string{os.Args[0]}, StateDir: dir, Dir: filepath.Join(dir, "nope")}, "no such file")
	mustBeEmpty(t, dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f("state folder is a file", Options{Argv: []string{os.Args[0]}, StateDir: file}, "make the state folder")
	t.Setenv(watchdogVar, "x")
	f("inside a watchdog", Options{Argv: []string{os.Args[0]}, StateDir: dir}, "MaybeWatchdog before anything else")
}

func TestMissingExecutableIsErrNotExist(t *testing.T) {
	_, err := Start(Options{Argv: []string{"/nonexistent/engine"}, StateDir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v is not os.ErrNotExist", err)
	}
}

// A program that does not call MaybeWatchdog must be told so, and not wait for ever.
func TestWatchdogWithoutHook(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("usage: x\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := new(watchdog).await(r); err == nil || !strings.Contains(err.Error(), "main must call") {
		t.Errorf("got %v", err)
	}
}

func TestWatchOrders(t *testing.T) {
	f := func(name, orders string, want int) {
		t.Helper()
		if got := watch(strings.NewReader(orders)); got != want {
			t.Errorf("%s: exit code %d, want %d", name, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "A"+lockExt)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f("owner died before it said anything", "", 0)
	f("noise", "noise\n", 0)
	f("dismissed", `{"record":{"id":"A"},"path":"`+path+`"}`+"\n"+`{"dismiss":true}`+"\n", 0)
	if _, err := os.Stat(path); err != nil {
		t.Error("a dismissed watchdog removed the lock file")
	}
	f("owner died before the start", `{"record":{"id":"A"},"path":"`+path+`"}`+"\n", 0)
	if _, err := os.Stat(path); err == nil {
		t.Error("the lock file is left")
	}
}

// startOwner starts a process that is an owner, and returns when its tree stands.
func startOwner(t *testing.T, dir, role string) (*exec.Cmd, cast) {
	t.Helper()
	cmd := self(role)
	cmd.Env = append(cmd.Env, "CHILD_TEST_STATE="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	who := listen(t, out, "owner")
	t.Cleanup(func() {
		cmd.Process.Kill()
		for _, p := range who {
			p.signal(syscall.SIGKILL)
		}
	})
	return cmd, who
}

func kill9(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // always an error: killed
}

func TestKilledOwnerWatchdog(t *testing.T) {
	for _, role := range []string{"owner", "owner,deaf"} {
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			cmd, who := startOwner(t, dir, role)
			if len(who) != 6 {
				t.Fatalf("on stage: %v", who)
			}
			// What is sent to all processes of a job must not take the watchdog away before the owner is gone.
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
				who["watchdog"].signal(s)
			}
			kill9(t, cmd)
			eventually(t, "everything is gone", func() bool { return len(who.running()) == 0 })
			mustBeEmpty(t, dir)
			if left, err := Reap(dir); len(left) > 0 || err != nil {
				t.Errorf("Reap found %v, %v after the watchdog", left, err)
			}
		})
	}
}

func TestKilledOwnerReap(t *testing.T) {
	for _, c := range []struct {
		role string
		want []string // whom Reap finds; the first process dies with the owner
	}{
		{"owner,bare", []string{"away", "like", "unmarked"}},
		{"owner,bare,few,remember", []string{"unmarked"}},
	} {
		t.Run(c.role, func(t *testing.T) {
			dir := t.TempDir()
			cmd, who := startOwner(t, dir, c.role)
			if left, err := Reap(dir); len(left) > 0 || err != nil {
				t.Fatalf("Reap touched %v, %v of a live owner", left, err)
			}
			if got := who.running(); len(got) != len(who) {
				t.Fatalf("only %v run after Reap beside a live owner", got)
			}
			kill9(t, cmd)
			eventually(t, "the first process dies with its owner", func() bool { return !running(who["tree"]) })
			if got := who.running(); !slices.Equal(got, c.want) {
				t.Fatalf("running before Reap: %v, want %v", got, c.want)
			}
			left, err := Reap(dir)
			if err != nil || len(left) != 1 {
				t.Fatalf("Reap: %v, %v", left, err)
			}
			var pids []int
			for _, name := range c.want {
				pids = append(pids, who[name].pid)
			}
			slices.Sort(pids)
			r := left[0]
			if r.Label != "tree" || r.Port != 4711 || r.Owner != cmd.Process.Pid || !slices.Equal(r.PIDs, pids) {
				t.Errorf("Reap: %+v, want pids %v of owner %d", r, pids, cmd.Process.Pid)
			}
			who.mustBeGone(t)
			mustBeEmpty(t, dir)
		})
	}
}

func TestReapLeavesLiveOwners(t *testing.T) {
	dir := t.TempDir()
	_, who := startOwner(t, dir, "owner")
	p, out := startRole(t, dir, "leaf")
	leaf := listen(t, out, "leaf")
	if left, err := Reap(dir); len(left) > 0 || err != nil {
		t.Errorf("Reap: %v, %v", left, err)
	}
	if len(who.running()) != len(who) || len(leaf.running()) != 1 {
		t.Errorf("running after Reap: %v %v", who.running(), leaf.running())
	}
	if err := p.Stop(context.Background(), patience); err != nil {
		t.Error(err)
	}
	if len(who.running()) != len(who) {
		t.Errorf("Stop of one child ended another: %v", who.running())
	}
}

func writeRecord(t *testing.T, dir string, rec record) string {
	t.Helper()
	b, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, rec.ID+lockExt)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Numbers in an old lock file may belong to anybody by now.
func TestReapSparesStrangers(t *testing.T) {
	cmd := self("tree")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	who := listen(t, out, "tree")
	t.Cleanup(func() {
		for _, p := range who {
			p.signal(syscall.SIGKILL)
		}
		cmd.Wait()
	})
	tree := who["tree"]
	gone := record{Label: "old", Owner: tree.pid, OwnerStart: tree.start - 1, Boot: boot(), Namespace: namespace()}
	for _, c := range []struct {
		name string
		edit func(*record)
	}{
		{"number used again", func(r *record) { r.PID, r.Start = tree.pid, tree.start-1 }},
		{"member's number used again", func(r *record) { r.Members = []ident{{tree.pid, tree.start - 1}} }},
		{"other boot", func(r *record) { r.PID, r.Start, r.Boot = tree.pid, tree.start, "another" }},
		{"other namespace", func(r *record) { r.PID, r.Start, r.Namespace = tree.pid, tree.start, "pid:[1]" }},
	} {
		dir, rec := t.TempDir(), gone
		rec.ID = "ID"
		c.edit(&rec)
		writeRecord(t, dir, rec)
		left, err := Reap(dir)
		if err != nil || len(left) != 1 || len(left[0].PIDs) != 0 {
			t.Errorf("%s: Reap: %v, %v; want one without processes", c.name, left, err)
		}
		if got := who.running(); len(got) != len(who) {
			t.Fatalf("%s: killed strangers, only %v run", c.name, got)
		}
		mustBeEmpty(t, dir)
	}
	// The same record with the right start time is not a stranger's.
	dir, rec := t.TempDir(), gone
	rec.ID, rec.PID, rec.Start = "ID", tree.pid, tree.start
	writeRecord(t, dir, rec)
	left, err := Reap(dir)
	if err != nil || len(left) != 1 || !slices.Contains(left[0].PIDs, tree.pid) {
		t.Errorf("Reap: %v, %v; want %d", left, err, tree.pid)
	}
	who.mustBeGone(t)
}

// The lock is free but the owner lives: it is just about to remove its file.
func TestReapOwnerAlive(t *testing.T) {
	me, err := readProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := writeRecord(t, dir, record{ID: "ID", Owner: me.pid, OwnerStart: me.start, Boot: boot(), Namespace: namespace()})
	if left, err := Reap(dir); len(left) > 0 || err != nil {
		t.Errorf("Reap: %v, %v", left, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestReapTornFiles(t *testing.T) {
	dir := t.TempDir()
	cmd := self("leaf")
	cmd.Env = append(cmd.Env, ownerVar+"=TORN")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	who := listen(t, out, "leaf")
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for name, content := range map[string]string{"TORN.json": `{"id":"TO`, "EMPTY.json": "", "D.draft": "", "README": "not ours"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left, err := Reap(dir)
	if err != nil || len(left) != 2 {
		t.Fatalf("Reap: %v, %v", left, err)
	}
	who.mustBeGone(t)
	if got := left[1]; !slices.Equal(got.PIDs, []int{who["leaf"].pid}) {
		t.Errorf("Reap: %v, want the process that carries the mark", left)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "README" {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

func TestReapWithoutFolder(t *testing.T) {
	left, err := Reap(filepath.Join(t.TempDir(), "never made"))
	if left != nil || err != nil {
		t.Errorf("Reap: %v, %v", left, err)
	}
}

func TestReapedString(t *testing.T) {
	f := func(r Reaped, want string) {
		t.Helper()
		if got := r.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	f(Reaped{Label: "vllm", Owner: 12, PIDs: []int{13, 14}}, "vllm of process 12, which is gone: killed 13, 14")
	f(Reaped{Label: "vllm", Owner: 12}, "vllm of process 12, which is gone: nothing was left running, lock file removed")
}

// Pdeathsig is sent when the thread that forked ends, and the caller's thread may end at any time.
func TestCallersThreadMayEnd(t *testing.T) {
	var p *Proc
	var out io.Reader
	var tid int
	var wg sync.WaitGroup
	onDyingThread(&wg, func() {
		tid = syscall.Gettid()
		p, out = startRole(t, t.TempDir(), "leaf")
	})
	wg.Wait()
	listen(t, out, "leaf")
	eventually(t, "the caller's thread ends", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return err != nil
	})
	// A later child, started and over, shows that a signal from the ended thread has had its turn.
	q, _ := startRole(t, t.TempDir(), "exit,0")
	<-q.Done()
	select {
	case <-p.Done():
		t.Errorf("the child ended with somebody else's thread: %+v", p.Exit())
	default:
	}
}

// onDyingThread runs f on a thread that ends with it.
func onDyingThread(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if syscall.Gettid() != os.Getpid() {
			f()
			return
		}
		// The main thread never ends. While it is locked here, the next goroutine gets another one.
		defer runtime.UnlockOSThread()
		var next sync.WaitGroup
		onDyingThread(&next, f)
		next.Wait()
	})
}

type brokenWriter struct{ n int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	b.n += len(p)
	return 0, errors.New("disk full")
}

func TestOutput(t *testing.T) {
	start := func(stdout, stderr io.Writer) Exit {
		t.Helper()
		p, err := Start(Options{Argv: []string{os.Args[0]}, Env: append(os.Environ(), roleVar+"=chatty"), Stdout: stdout, Stderr: stderr, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		return p.Exit()
	}
	var both bytes.Buffer
	if e := start(&both, &both); e != (Exit{}) || both.Len() != 1<<20+len("\nend\n") || !strings.HasSuffix(both.String(), "\nend\n") {
		t.Errorf("exit %+v, %d bytes", e, both.Len())
	}
	var broken brokenWriter
	if e := start(&broken, nil); e != (Exit{}) || broken.n != 1<<20+1 {
		t.Errorf("with a writer that fails: exit %+v, %d bytes offered; want a clean exit and all bytes", e, broken.n)
	}
}

func TestParseStatSuccess(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b (c) S 7 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 123456 1000 100\n"))
	if want := (proc{pid: 42, ppid: 7, pgid: 40, start: 123456, state: 'S', threads: 3}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestParseStatFailure(t *testing.T) {
	for _, s := range []string{"", "42", "42 (x", "42 )x( S", "(x) S 1", "42 (x) S 7 40", "x (x) S 7 40 40 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 9", "42 (x) S 7 40 40 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 -9"} {
		if p, err := parseStat([]byte(s)); err == nil {
			t.Errorf("%q: %+v, want an error", s, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b (c) S 7 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1000 100\n"))
	f.Add([]byte("1 () Z 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1"))
	f.Add([]byte("1 (x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseStat(b)
		if err != nil && p != (proc{}) {
			t.Errorf("%q: %+v beside %v", b, p, err)
		}
	})
}
