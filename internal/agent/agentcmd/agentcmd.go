// Package agentcmd is the agent's command line, the same for muster-agent and `muster
// agent`. In: arguments and environment. Out: an exit code. It holds no state and
// starts nothing but the agent.
package agentcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	"github.com/muster-fleet/muster/internal/version"
)

// Options is what flags and environment say.
type Options struct {
	Agent    agent.Config
	LogLevel slog.Level
	LogJSON  bool
	Version  bool
	Probe    bool // run one probe and exit; its name and arguments are in Rest
	Rest     []string
}

// Parse reads flags, and for those not given the environment: --state-dir is
// MUSTER_STATE_DIR. flag.ErrHelp after --help.
func Parse(args []string, getenv func(string) string, helpOut io.Writer) (*Options, error) {
	o, w := &Options{}, words{}
	set := flags(o, &w)
	set.SetOutput(io.Discard) // what is wrong is said once, and not by the library
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		usage(set, helpOut)
		return nil, err
	} else if err != nil {
		return nil, wrongFlag(set, err)
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	set.VisitAll(func(f *flag.Flag) {
		name := envOf(f)
		if v := getenv(name); name != "" && v != "" && !given[f.Name] {
			if err := set.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %q: %w", name, v, err))
			}
		}
	})
	o.Rest = set.Args()
	if len(o.Rest) > 0 && !o.Probe {
		errs = append(errs, fmt.Errorf("%q is too much: the agent takes flags only", o.Rest[0]))
	}
	o.Agent.Servers, o.Agent.Groups = list(w.servers), list(w.groups)
	if o.Agent.StateDir == "" {
		o.Agent.StateDir = defaultStateDir(getenv)
	}
	var err error
	if o.Agent.Labels, err = pairs(w.labels); err != nil {
		errs = append(errs, fmt.Errorf("--labels: %w", err))
	}
	if size, err := model.ParseSize(w.spool); err != nil {
		errs = append(errs, fmt.Errorf("--spool-size: %w", err))
	} else {
		o.Agent.SpoolBytes = int64(size)
	}
	if age, err := model.ParseDuration(w.age); err != nil {
		errs = append(errs, fmt.Errorf("--spool-age: %w", err))
	} else if o.Agent.SpoolAge = time.Duration(age); age <= 0 || o.Agent.SpoolAge > model.MaxSpoolAge {
		errs = append(errs, fmt.Errorf("--spool-age %s: want at most %s: so long does a server know what old results ran under", age, model.Duration(model.MaxSpoolAge)))
	}
	if err := o.LogLevel.UnmarshalText([]byte(w.level)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: want debug, info, warn or error", w.level))
	}
	if o.Agent.AllowCommands, err = allowed(w.allow); err != nil {
		errs = append(errs, fmt.Errorf("--allow-commands: %w", err))
	}
	if o.LogJSON = w.format == "json"; !o.LogJSON && w.format != "text" {
		errs = append(errs, fmt.Errorf("--log-format %q: want text or json", w.format))
	}
	if file, ok := strings.CutPrefix(o.Agent.Token, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("--token: %w", err))
		}
		o.Agent.Token = strings.TrimSpace(string(data))
	}
	if len(errs) > 0 {
		return nil, model.Errorf(model.Invalid, "%w", errors.Join(errs...)).WithHint("all settings: muster-agent --help")
	}
	o.Agent.Version = version.Get().Version
	return o, nil
}

// Main runs the agent's command line until ctx ends and returns the exit code.
func Main(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := Parse(args, getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "muster-agent:", err)
		return model.Invalid.Exit()
	case o.Version:
		fmt.Fprintln(out, version.Get())
		return 0
	case o.Probe:
		return oneProbe(ctx, o.Rest, out, errOut)
	}
	limitMemory(getenv)
	handler := &slog.HandlerOptions{Level: o.LogLevel}
	o.Agent.Log = slog.New(slog.NewTextHandler(errOut, handler))
	if o.LogJSON {
		o.Agent.Log = slog.New(slog.NewJSONHandler(errOut, handler))
	}
	o.Agent.Guard = &guard.Guard{Log: o.Agent.Log}
	defer o.Agent.Guard.Close()
	a, err := agent.New(o.Agent)
	if err == nil {
		o.Agent.Log.Info("agent begins", "version", o.Agent.Version, "stateDir", o.Agent.StateDir)
		err = a.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(errOut, "muster-agent:", err)
		return model.ClassOf(err).Exit()
	}
	return 0
}

// limitMemory keeps the agent small: its heap is a few MiB, so that collecting more
// often costs nothing to speak of.
func limitMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(24 << 20)
	}
}

func oneProbe(ctx context.Context, words []string, out, errOut io.Writer) int {
	if len(words) == 0 {
		for _, p := range probe.All() {
			fmt.Fprintf(out, "%-10s %s\n", p.Name, p.Summary)
		}
		return 0
	}
	args, err := pairs(strings.Join(words[1:], "\x00"), "\x00")
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

// defaultStateDir is the system's folder for root, else one of the user's.
func defaultStateDir(getenv func(string) string) string {
	if os.Geteuid() == 0 {
		return "/var/lib/muster-agent"
	}
	if dir := getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "muster-agent")
	}
	if dir, err := os.UserConfigDir(); err == nil && getenv("HOME") == "" {
		return filepath.Join(dir, "muster-agent")
	}
	return filepath.Join(getenv("HOME"), ".local", "state", "muster-agent")
}

func list(text string) []string {
	var out []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// allowed reads the list of what may run, or the file that has it: an entry a line, and
// comments after #.
func allowed(text string) (entries []string, err error) {
	file, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		entries = list(text)
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
		return nil, fmt.Errorf("%q lists nothing; to run no checks at all, stop the agent", text)
	}
	_, err = run.ParseAllow(entries)
	return entries, err
}

// pairs reads key=value, separated by commas or what is given.
func pairs(text string, separator ...string) (map[string]string, error) {
	sep := ","
	if len(separator) > 0 {
		sep = separator[0]
	}
	out := map[string]string{}
	for _, word := range strings.Split(text, sep) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: want key=value", word)
		}
		out[key] = value
	}
	return out, nil
}
