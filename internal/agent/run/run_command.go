package run

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	// DefaultPluginPath is appended to PATH: where distributions put plug-ins.
	DefaultPluginPath = "/usr/lib/nagios/plugins:/usr/lib64/nagios/plugins:/usr/local/lib/nagios/plugins"
	// drainLimit is the output in bytes after which the agent closes the pipe of a command, which SIGPIPE then ends.
	drainLimit = 256 << 20
)

// Command describes one command to run, with its environment and limits. It has either Shell or Argv.
type Command struct {
	Shell     string   // by /bin/sh -c
	Argv      []string // without a shell
	Env       map[string]string
	Hide      []string      // secrets of Env, redacted in the output
	Stdin     string        // its standard input
	RunAs     string        // user name; empty: the agent's own
	Timeout   time.Duration // zero: none but ctx
	MaxOutput int           // bytes kept; zero: model.DefaultOutputBytes
	Assets    []Asset       // their programs and libraries come first
	AdHoc     bool          // no plug-in: another exit code is named, not explained
	// Stream receives the kept output while the command runs, on the run's goroutine; the bytes are valid
	// during the call. It may be nil.
	Stream func([]byte)
}

// Result describes one finished run of a command, with status, output and duration.
type Result struct {
	Status   model.Status
	Code     int    // the exit code; -1: none, or it was killed
	Output   []byte // valid UTF-8 without zero bytes, at most MaxOutput
	Cut      uint64 // bytes of output that are not in Output
	Duration time.Duration
	// Note has the lines that the agent added to Output, for receivers of Stream.
	Note            string
	UnstreamedBytes uint64 // bytes that Stream did not receive
	Refused         bool   // by Allow: nothing ran, and Output has the reason
}

// Runner runs commands of checks and hooks with limits on time and output. The zero value is ready.
type Runner struct {
	PluginPath string        // appended to PATH; list as in PATH
	Dir        string        // working directory; default /
	Node       func() string // name of this node, for messages: "not found in PATH on web01"; nil: not said
	Grace      time.Duration // between SIGTERM and SIGKILL; default 2 s
	Nice       int           // added to the priority of commands; zero: none
	Environ    []string      // default os.Environ(); variables MUSTER_… and NOTIFY_SOCKET are withheld
	Guard      *guard.Guard  // ends commands if the agent is killed; nil: they go on
	Allow      *AllowList    // the programs that may run; nil: all

	forks atomic.Uint64
}

// StartedCommands returns the number of commands that the Runner has started
func (r *Runner) StartedCommands() uint64 { return r.forks.Load() }

// Run runs a command until exit or timeout, and returns its status and output. If ctx ends first, the command ends as
// at a time-out, and the output has the cause of ctx.
func (r *Runner) Run(ctx context.Context, c Command) Result {
	began := time.Now()
	out := outputBuffer{maxKept: c.MaxOutput, stream: c.Stream, hider: hide.New(c.Hide)}
	if out.maxKept <= 0 {
		out.maxKept = model.DefaultOutputBytes
	}
	v := r.run(ctx, c, &out)
	text, cut := v.composeOutput(out.tail, out.total, out.maxKept)
	note := strings.TrimPrefix(v.cause+"\n"+v.note, "\n")
	return Result{Status: v.status, Code: v.code, Output: text, Cut: cut, Duration: time.Since(began), Note: strings.TrimSuffix(note, "\n"), UnstreamedBytes: out.total - uint64(len(out.tail)), Refused: v.refused}
}

// run runs a command, and returns its status, exit code and cause of an abnormal end.
func (r *Runner) run(ctx context.Context, c Command, out *outputBuffer) exitStatus {
	env, path, own := r.environment(c)
	if r.Allow != nil {
		var why string
		if c, why = r.Allow.checkAllowed(c, own); why != "" {
			v := unknownStatus("refused" + r.onNodeText() + ": the agent runs only the programs in its setting --allow-commands; " + why)
			v.refused = true
			return v
		}
		path = own // the agent's own PATH, also if the check sets PATH
	}
	argv := c.Argv
	if argv == nil {
		argv = shellArgv(c.Shell)
	}
	if len(argv) == 0 || argv[0] == "" {
		return unknownStatus("the command is empty")
	}
	program, err := lookPath(argv[0], path)
	if err != nil {
		return unknownStatus(r.notFoundMessage(argv[0], path, err))
	}
	parent := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	grace := cmp.Or(r.Grace, 2*time.Second)
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env, cmd.Dir = argv, env, cmp.Or(r.Dir, rootDir)
	cmd.Stdout, cmd.Stderr = out, out // one pipe for both
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	if err := setUser(cmd, c.RunAs); err != nil {
		return unknownStatus(err.Error())
	}
	var kill *time.Timer
	cmd.Cancel = func() error {
		kill = time.AfterFunc(grace, func() { killGroup(cmd.Process.Pid) })
		return terminateGroup(cmd.Process.Pid)
	}
	// Wait returns this time after the command's end, although a child process keeps the output open.
	cmd.WaitDelay = grace + time.Second
	if err := r.Guard.Start(cmd); err != nil {
		return unknownStatus(r.startFailedMessage(argv[0], c.RunAs, err))
	}
	r.forks.Add(1)
	if r.Nice != 0 {
		setNice(cmd.Process.Pid, r.Nice)
	}
	err = cmd.Wait()
	if kill != nil {
		kill.Stop()
	}
	held := errors.Is(err, exec.ErrWaitDelay)
	if ctx.Err() != nil || held {
		killGroup(cmd.Process.Pid) // its remaining child processes
	}
	r.Guard.Release(cmd)
	out.flushRedactor()
	v := r.statusOfExit(cmd.ProcessState, argv, c, path, out.tail)
	switch {
	case parent.Err() != nil && v.signalled:
		v.status, v.code, v.cause = model.Unknown, -1, "killed because the agent stops"
		if why := context.Cause(parent); !errors.Is(why, context.Canceled) {
			v.cause = why.Error()
		}
	case parent.Err() == nil && ctx.Err() != nil:
		v.status, v.code, v.cause = model.Unknown, -1, "timed out after "+model.Duration(c.Timeout).String()
	case held:
		v.note = "(its child processes kept the output open and were killed)"
	case out.flooded:
		v.cause += " after more than " + model.Size(drainLimit).String() + " of output"
	}
	return v
}

// environment returns the environment of a check's command. It has the agent's environment without the agent's own
// variables, the plug-in folders in PATH, and the variables of the check. own is the PATH without the check's. Another
// user inherits language and time zone only: other variables, such as a proxy's password, belong to the agent.
func (r *Runner) environment(c Command) (env []string, path, own string) {
	base := r.Environ
	if base == nil {
		base = os.Environ()
	}
	env = make([]string, 0, len(base)+len(c.Env)+3)
	for _, kv := range base {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p
		} else if !strings.HasPrefix(kv, "MUSTER_") && !strings.HasPrefix(kv, "NOTIFY_SOCKET=") && (c.RunAs == "" || isInheritedByOtherUsers(kv)) {
			env = append(env, kv)
		}
	}
	own = appendPathFolders(cmp.Or(path, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), cmp.Or(r.PluginPath, DefaultPluginPath))
	if c.RunAs != "" {
		env = append(env, homeVariables(c.RunAs)...)
	}
	env = model.AssetEnvironment(append(env, "PATH="+own), c.Env, c.Assets)
	for _, kv := range env { // the last one counts
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p
		}
	}
	return env, path, own
}

// isInheritedByOtherUsers reports whether another user's command inherits a variable of the agent. Only language and
// time zone are inherited.
func isInheritedByOtherUsers(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return name == "LANG" || name == "TZ" || strings.HasPrefix(name, "LC_")
}

// appendPathFolders appends folders to PATH, except the folders that PATH already contains.
func appendPathFolders(path, more string) string {
	have := strings.Split(path, string(os.PathListSeparator))
	for _, dir := range strings.Split(more, ":") {
		if dir != "" && !slices.Contains(have, dir) {
			have = append(have, dir)
		}
	}
	return strings.Join(have, string(os.PathListSeparator))
}

// Asset is an extracted archive whose programs and libraries a command uses.
type Asset = model.AssetDir
