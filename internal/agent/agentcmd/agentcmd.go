// Package agentcmd is the agent's command line, the same for muster-agent and `muster
// agent`. In: arguments, environment and a file of settings. Out: an exit code. It holds no
// state and starts nothing but the agent, and systemctl where --service asks for it.
//
// Start reading at Main; the commands are listed in flags_and_settings_file.go.
package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/sdnotify"
	"github.com/muster-fleet/muster/internal/version"
)

// Options has all settings of the agent, from command line, environment and settings file.
type Options struct {
	Agent      agent.Config
	Config     string            // the file of settings
	FlagValues map[string]string // by flag, environment or file: flag → value
	LogLevel   slog.Level
	LogJSON    bool
	Version    bool
	Probe      bool // run one probe and exit; its name and arguments are in Rest
	Rest       []string
}

// Parse parses the command line, the environment and the settings file into Options. A setting without a flag comes
// from the environment (MUSTER_STATE_DIR for --state- dir), then from the settings file. Parse returns flag.ErrHelp
// after --help.
func Parse(args []string, getenv func(string) string, helpOut io.Writer) (*Options, error) {
	return parseFlags(args, getenv, helpOut, subcommand{})
}

// parseFlags parses the flags of the agent or of one subcommand, then environment and settings file.
func parseFlags(args []string, getenv func(string) string, helpOut io.Writer, c subcommand) (*Options, error) {
	o, w := &Options{}, rawValues{}
	set := agentFlags(o, &w)
	if c.flags != nil {
		c.flags(set)
	}
	set.SetOutput(io.Discard) // errors are printed once, by Main
	for rest := args; ; {
		if err := set.Parse(rest); errors.Is(err, flag.ErrHelp) {
			c.usage(set, helpOut)
			return nil, err
		} else if err != nil {
			return nil, flagError(set, err)
		}
		if rest = set.Args(); len(rest) == 0 || o.Probe {
			o.Rest = append(o.Rest, rest...)
			break
		}
		o.Rest, rest = append(o.Rest, rest[0]), rest[1:] // flags may follow
	}
	errs := o.fillFromEnvironment(set, getenv, c.name == "")
	if len(o.Rest) > c.maxArguments && !o.Probe {
		errs = append(errs, c.extraArgument(o.Rest[c.maxArguments]))
	}
	errs = append(errs, w.convertTexts(o, getenv)...)
	if len(errs) == 1 {
		var withHint *model.Error
		if errors.As(errs[0], &withHint) && withHint.Hint != "" {
			return nil, withHint
		}
	}
	if len(errs) > 0 {
		return nil, model.Errorf(model.Invalid, "%w", errors.Join(errs...)).WithHint("all settings: muster-agent --help")
	}
	o.Agent.Version = version.Get().Version
	return o, nil
}

// convertTexts parses the raw texts of flags and stores the values in the options. It returns all errors together.
func (w *rawValues) convertTexts(o *Options, getenv func(string) string) (errs []error) {
	check := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%w", flag, err))
		}
	}
	a := &o.Agent
	a.Servers, a.Groups = splitList(w.servers), splitList(w.groups)
	a.StateDir = cmp.Or(a.StateDir, pathForUser(getenv, defaultStateDir, "XDG_STATE_HOME", ".local/state", "muster-agent"))
	var err error
	a.CA, err = w.trustedCA()
	check("", err)
	a.Dial, err = w.proxyDialer(getenv)
	check("", err)
	a.Labels, err = keyValuePairs(w.labels, ",")
	check("--labels: ", err)
	spool, err := model.ParseSize(w.spool)
	check("--spool-size: ", err)
	assets, err := model.ParseSize(w.assets)
	check("--asset-size: ", err)
	age, err := model.ParseDuration(w.age)
	check("--spool-age: ", err)
	if most := model.Duration(model.MaxSpoolAge); err == nil && (age <= 0 || age > most) {
		check("", fmt.Errorf("--spool-age %s: expected at most %s, because the server deletes old check definitions after that time", age, most))
	}
	a.Spool.Bytes, a.Spool.Age, a.AssetBytes = int64(spool), time.Duration(age), int64(assets)
	if o.LogLevel.UnmarshalText([]byte(w.level)) != nil {
		check("", fmt.Errorf("--log-level %q: expected debug, info, warn or error", w.level))
	}
	a.Commands.Allow, err = allowedPrograms(w.allow)
	check("--allow-commands: ", err)
	if o.LogJSON = w.format == "json"; !o.LogJSON && w.format != "text" {
		check("", fmt.Errorf("--log-format %q: expected text or json", w.format))
	}
	if file, ok := strings.CutPrefix(a.Token, "@"); ok {
		data, err := os.ReadFile(file)
		check("--token: ", err)
		a.Token = strings.TrimSpace(string(data))
	}
	return errs
}

// fillFromEnvironment sets the flags that are missing on the command line, from environment and settings file. It
// takes the values from environment variables, then from the settings file. mustExist: a settings file that was named
// must exist, except for join, which writes it.
func (o *Options) fillFromEnvironment(set *flag.FlagSet, getenv func(string) string, mustExist bool) (errs []error) {
	o.FlagValues = map[string]string{}
	set.Visit(func(f *flag.Flag) { o.FlagValues[f.Name] = f.Value.String() })
	take := func(f *flag.Flag, value, whence string) {
		if _, ok := o.FlagValues[f.Name]; ok || value == "" {
			return
		}
		if err := set.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", whence, value, err))
		}
		o.FlagValues[f.Name] = value
	}
	set.VisitAll(func(f *flag.Flag) {
		if name := variableOfFlag(f); name != "" {
			take(f, getenv(name), name)
		}
	})
	if o.Config == "" {
		o.Config, mustExist = defaultConfig(getenv), false
	}
	settings, err := readSettings(o.Config, set)
	if err != nil && (mustExist || !errors.Is(err, fs.ErrNotExist)) {
		return append(errs, err)
	}
	for _, s := range settings {
		take(s.flag, s.value, o.Config+": "+s.name)
	}
	return errs
}

// Env has the process environment of the agent's command line, such as environment variables, standard input
// and outputs.
type Env struct {
	Program  string // as it is typed: muster-agent, or muster agent
	Getenv   func(string) string
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the agent's command line until ctx ends and returns the exit code.
func Main(ctx context.Context, args []string, env Env) int {
	env.Program = cmp.Or(env.Program, "muster-agent")
	err := runSubcommand(ctx, args, env)
	var ended exitCode
	if errors.As(err, &ended) {
		return int(ended)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(env.Err, "muster-agent:", err)
	return model.ClassOf(err).Exit()
}

// exitCode is an error that ends the program with a certain exit code and without a message.
type exitCode int

// Error returns a text with the number of the exit code.
func (e exitCode) Error() string { return fmt.Sprint("ends with ", int(e)) }

// runSubcommand runs the subcommand in the first argument, or the agent if no subcommand is named.
func runSubcommand(ctx context.Context, args []string, env Env) error {
	if len(args) > 0 {
		for _, c := range subcommands() {
			if c.name == args[0] {
				o, err := parseFlags(args[1:], env.Getenv, env.Out, c)
				if err != nil {
					return err
				}
				return c.run(ctx, o, env)
			}
		}
	}
	o, err := Parse(args, env.Getenv, env.Out)
	switch {
	case err != nil:
		return err
	case o.Version:
		fmt.Fprintln(env.Out, version.Get())
		return nil
	case o.Probe:
		return exitCode(runProbe(ctx, o.Rest, env.Out, env.Err))
	}
	return runAgent(ctx, o, env)
}

// withoutTimeAttr removes the time from log lines, because systemd's journal adds its own.
func withoutTimeAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.Attr{}
	}
	return model.LogAttr(groups, a)
}

// runAgent runs the agent until ctx ends, and writes its log.
func runAgent(ctx context.Context, o *Options, env Env) error {
	limitMemory(env.Getenv)
	handler := &slog.HandlerOptions{Level: o.LogLevel, ReplaceAttr: model.LogAttr}
	if o.LogJSON {
		o.Agent.Log = slog.New(slog.NewJSONHandler(env.Err, handler))
	} else {
		if sdnotify.InJournal(env.Getenv("JOURNAL_STREAM"), env.Err) {
			handler.ReplaceAttr = withoutTimeAttr
		}
		o.Agent.Log = slog.New(slog.NewTextHandler(env.Err, handler))
	}
	o.Agent.Commands.Guard = &guard.Guard{Log: o.Agent.Log}
	defer o.Agent.Commands.Guard.Close()
	manager := sdnotify.Manager{Socket: env.Getenv("NOTIFY_SOCKET")}
	o.Agent.State = manager.Status
	o.Agent.Log.Info("agent begins", "version", o.Agent.Version, "stateDir", o.Agent.StateDir)
	manager.Notify("READY=1\nSTATUS=begins")
	defer context.AfterFunc(ctx, func() { manager.Notify("STOPPING=1\nSTATUS=stops") })()
	err := agent.ErrForgotten
	for errors.Is(err, agent.ErrForgotten) {
		var a *agent.Agent
		if a, err = agent.New(o.Agent); err == nil {
			err = a.Run(ctx)
		}
	}
	if err != nil {
		manager.Status(err.Error())
	}
	return err
}

// limitMemory makes the garbage collector run more often, to keep the agent's heap small.
func limitMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(24 << 20)
	}
}

// runProbe runs the probe in the flag --probe, prints its output and returns its status as exit code.
func runProbe(ctx context.Context, words []string, out, errOut io.Writer) int {
	if len(words) == 0 {
		for _, p := range probe.All() {
			fmt.Fprintf(out, "%-10s %s\n", p.Name, p.Summary)
		}
		return 0
	}
	args, err := keyValuePairs(strings.Join(words[1:], "\x00"), "\x00")
	if err != nil {
		fmt.Fprintln(errOut, "muster-agent:", err)
		return int(model.Unknown)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	status, text := probe.Run(ctx, &probe.Env{}, words[0], args)
	fmt.Fprintf(out, "%s\n", text)
	return int(status)
}

// defaultConfig returns the default path of the settings file. For root it is /etc/muster/agent.env, otherwise a file
// in the user's folder.
func defaultConfig(getenv func(string) string) string {
	return pathForUser(getenv, "/etc/muster/agent.env", "XDG_CONFIG_HOME", ".config", "muster/agent.env")
}

// pathForUser returns the system-wide path for root, and a path below XDG folders or HOME for other users.
func pathForUser(getenv func(string) string, system, xdg, folder, name string) string {
	if os.Geteuid() == 0 {
		return system
	}
	if dir := getenv(xdg); dir != "" {
		return filepath.Join(dir, name)
	}
	if dir, err := os.UserConfigDir(); err == nil && getenv("HOME") == "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(getenv("HOME"), folder, name)
}

// trustedCA returns the SHA-256 of the CA in --ca-hash or --ca-file, or zero without both flags.
func (w *rawValues) trustedCA() (sum [32]byte, err error) {
	switch {
	case w.caHash != "" && w.caFile != "":
		return sum, errors.New("use either --ca-hash or --ca-file")
	case w.caHash != "":
		return pki.ParseSum(w.caHash)
	case w.caFile != "":
		data, err := os.ReadFile(w.caFile)
		if err != nil {
			return sum, fmt.Errorf("read the file of --ca-file: %w", err)
		}
		if sum, err = pki.SumOf(data); err != nil {
			return sum, fmt.Errorf("--ca-file %s: %w", w.caFile, err)
		}
	}
	return sum, nil
}

// splitList splits a comma-separated list.
func splitList(text string) []string {
	var out []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// allowedPrograms parses the list of programs that commands may run. The argument is the list or, after @, the name of
// a file with one entry a line. A line with # is a comment.
func allowedPrograms(text string) (entries []string, err error) {
	file, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		entries = splitList(text)
	} else {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				entries = append(entries, line)
			}
		}
	}
	if len(entries) == 0 && strings.TrimSpace(text) != "" {
		return nil, fmt.Errorf("the list of allowed programs %q is empty; to run no checks, stop the agent", text)
	}
	_, err = run.ParseAllowList(entries)
	return entries, err
}

// keyValuePairs parses a comma-separated list of key=value pairs.
func keyValuePairs(text, separator string) (map[string]string, error) {
	out := map[string]string{}
	for _, word := range strings.Split(text, separator) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: expected key=value", word)
		}
		out[key] = value
	}
	return out, nil
}
