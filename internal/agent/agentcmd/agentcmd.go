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
func Parse(args []string, getenv func(string) string, errOut io.Writer) (*Options, error) {
	o := &Options{}
	var servers, labels, groups, level, format, spool string
	set := flag.NewFlagSet("muster-agent", flag.ContinueOnError)
	set.SetOutput(errOut)
	set.Usage = func() {
		fmt.Fprintln(errOut, "usage: muster-agent [flags]\n       muster-agent --probe NAME [ARG=VALUE …]\n\nRuns the checks of this machine and reports to a Muster server. Every flag may be\ngiven as an environment variable: --state-dir is MUSTER_STATE_DIR.")
		set.PrintDefaults()
	}
	set.StringVar(&servers, "server", "", "servers as host:port, comma separated, in order of preference (default: as told when joining)")
	set.StringVar(&o.Agent.Token, "token", "", "join token, needed at the first start; better MUSTER_TOKEN or @FILE, which process lists do not show")
	set.StringVar(&o.Agent.StateDir, "state-dir", "", "folder of identity, assignment and spool (default: /var/lib/muster-agent for root, else ~/.local/state/muster-agent)")
	set.StringVar(&o.Agent.Name, "name", "", "name wanted for this node (default: the host name)")
	set.StringVar(&labels, "labels", "", "labels of this node: key=value, comma separated")
	set.StringVar(&groups, "groups", "", "groups to join, where token or group allows it, comma separated")
	set.IntVar(&o.Agent.MaxConcurrent, "max-concurrent", 0, "commands at once (default: CPUs, at least 2)")
	set.StringVar(&o.Agent.PluginPath, "plugin-path", run.DefaultPluginPath, "folders of plug-ins, appended to PATH")
	set.IntVar(&o.Agent.Nice, "nice", 0, "priority of commands: 0 as the agent, 19 the least")
	set.StringVar(&spool, "spool-size", "64MiB", "how much may wait on disk for the server")
	set.DurationVar(&o.Agent.SpoolAge, "spool-age", 24*time.Hour, "how long it may wait, at most 168h")
	set.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	set.StringVar(&format, "log-format", "text", "text or json")
	set.BoolVar(&o.Probe, "probe", false, "run one built-in probe, print what it says and end with its status")
	set.BoolVar(&o.Version, "version", false, "print the version")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	set.VisitAll(func(f *flag.Flag) {
		name := "MUSTER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := getenv(name); v != "" && !given[f.Name] && f.Name != "probe" && f.Name != "version" {
			if err := set.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	o.Rest = set.Args()
	if len(o.Rest) > 0 && !o.Probe {
		errs = append(errs, fmt.Errorf("unexpected argument %q", o.Rest[0]))
	}
	o.Agent.Servers, o.Agent.Groups = list(servers), list(groups)
	if o.Agent.StateDir == "" {
		o.Agent.StateDir = defaultStateDir(getenv)
	}
	var err error
	if o.Agent.Labels, err = pairs(labels); err != nil {
		errs = append(errs, fmt.Errorf("--labels: %w", err))
	}
	if size, err := model.ParseSize(spool); err != nil {
		errs = append(errs, fmt.Errorf("--spool-size: %w", err))
	} else {
		o.Agent.SpoolBytes = int64(size)
	}
	if o.Agent.SpoolAge <= 0 || o.Agent.SpoolAge > model.MaxSpoolAge {
		errs = append(errs, fmt.Errorf("--spool-age %s: want at most %s: so long does a server know what old results ran under", o.Agent.SpoolAge, model.MaxSpoolAge))
	}
	if err := o.LogLevel.UnmarshalText([]byte(level)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: want debug, info, warn or error", level))
	}
	if o.LogJSON = format == "json"; !o.LogJSON && format != "text" {
		errs = append(errs, fmt.Errorf("--log-format %q: want text or json", format))
	}
	if file, ok := strings.CutPrefix(o.Agent.Token, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("--token: %w", err))
		}
		o.Agent.Token = strings.TrimSpace(string(data))
	}
	if len(errs) > 0 {
		return nil, model.Errorf(model.Invalid, "%w", errors.Join(errs...))
	}
	o.Agent.Version = version.Get().Version
	return o, nil
}

// Usage is what --help says.
func Usage() string {
	var b strings.Builder
	_, _ = Parse([]string{"--help"}, func(string) string { return "" }, &b)
	return b.String()
}

// Main runs the agent's command line until ctx ends and returns the exit code.
func Main(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := Parse(args, getenv, errOut)
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
