package agentcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/inventory"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/secrets"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// rawValues has the raw texts of flags that Parse converts, such as lists and sizes.
type rawValues struct {
	servers, labels, groups, level, format, spool, age, assets, allow, caHash, caFile, proxy, noProxy string
}

// agentFlags declares the flags of the agent. The help, the environment variables and docs/reference/agent.md are
// generated from this list.
func agentFlags(o *Options, w *rawValues) *flag.FlagSet {
	set := flag.NewFlagSet("muster-agent", flag.ContinueOnError)
	set.StringVar(&w.servers, "server", "", "servers as host:port, comma separated, in order of preference (default: from the join)")
	set.StringVar(&o.Agent.Token, "token", "", "join token for an agent that joins at its first start; better MUSTER_TOKEN or @FILE, which process lists do not show")
	set.StringVar(&w.caHash, "ca-hash", "", "sha256:… of the server's CA, for a machine that joins without a token")
	set.StringVar(&w.caFile, "ca-file", "", "file with the server's CA (PEM), instead of --ca-hash")
	set.StringVar(&w.proxy, "https-proxy", "", "forward proxy to the server, http://USER:PASSWORD@HOST:PORT; better in the settings file, which process lists do not show")
	set.StringVar(&w.noProxy, "no-proxy", "", "hosts, domains (.example.org) and networks that are reached without the proxy, comma separated")
	set.StringVar(&o.Agent.StateDir, "state-dir", "", "folder of identity, assignment and spool (default: /var/lib/muster-agent for root, else ~/.local/state/muster-agent)")
	set.StringVar(&o.Agent.Name, "name", "", "name to request for this node (default: the host name)")
	set.StringVar(&w.labels, "labels", "", "labels of this node: key=value, comma separated")
	set.StringVar(&w.groups, "groups", "", "groups to request, comma separated; the token or the group must allow it")
	set.IntVar(&o.Agent.Commands.MaxConcurrent, "max-concurrent", 0, "commands at once (default: CPUs, at least 2)")
	set.StringVar(&o.Agent.Commands.PluginPath, "plugin-path", run.DefaultPluginPath, "folders of plug-ins, appended to PATH")
	set.IntVar(&o.Agent.Commands.Nice, "nice", 0, "priority of commands: 0 as the agent, 19 the least")
	set.StringVar(&w.allow, "allow-commands", "", "the only programs that may run, comma separated or @FILE with one per line: names or absolute paths, with * and ?; complete shell commands; env:NAME for variables that checks may set (default: all)")
	set.StringVar(&o.Agent.Commands.InventoryDir, "inventory-dir", inventory.DefaultDir, "folder of the scripts that print properties of the machine for its inventory, as a JSON object")
	set.StringVar(&o.Agent.Commands.SecretsDir, "secrets-dir", secrets.DefaultDir, "folder of the files that Secrets with agentFile name; the agent reads no secret outside of it")
	set.BoolVar(&o.Agent.Commands.NoRun, "no-run", false, "refuse all requested runs (muster run)")
	set.BoolVar(&o.Agent.Commands.AuditOnly, "audit-only", false, "refuse commands (muster run --command); directives only audit, checks run")
	set.BoolVar(&o.Agent.Commands.PolicyEnforce, "policy-enforce", false, "allow directives in enforce mode to change this machine; without it they audit")
	set.StringVar(&w.spool, "spool-size", "64MiB", "disk space of the spool: half for signals, half for rewriting them")
	set.StringVar(&w.age, "spool-age", "24h", "age at which the spool drops a signal, at most 7d")
	set.StringVar(&o.Agent.AssetDir, "asset-dir", "", "folder of the assets that checks need; others must be able to read it where checks have runAs (default: assets in the state folder)")
	set.StringVar(&w.assets, "asset-size", "2GiB", "disk space for assets; unused ones are deleted first")
	set.StringVar(&w.level, "log-level", "info", "debug, info, warn or error")
	set.StringVar(&w.format, "log-format", "text", "text or json")
	set.StringVar(&o.Config, "config", "", "file of settings: lines of MUSTER_NAME=value (default: /etc/muster/agent.env for root, else ~/.config/muster/agent.env)")
	set.BoolVar(&o.Probe, "probe", false, "run one built-in probe, print its output and exit with its status")
	set.BoolVar(&o.Version, "version", false, "print the version")
	return set
}

// variableOfFlag returns the environment variable for a flag, or "" if the flag has none.
func variableOfFlag(f *flag.Flag) string {
	switch f.Name {
	case "probe", "version", "service", "print-unit", "keep-token", "yes":
		return ""
	case "https-proxy", "no-proxy": // as everywhere
		return strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	}
	return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// printUsage prints the help of muster-agent, with usage, flags and examples.
func printUsage(set *flag.FlagSet, w io.Writer) {
	fmt.Fprintln(w, "usage: muster-agent [flags]\n       muster-agent join [TOKEN] [flags]\n       muster-agent reset-identity [flags]\n       muster-agent --probe NAME [ARG=VALUE …]\n\nRuns the checks of this machine and reports to a Muster server. Every flag may be\ngiven as an environment variable, or in the file of settings: --state-dir is\nMUSTER_STATE_DIR.")
	set.SetOutput(w)
	set.PrintDefaults()
}

// Usage returns the text of --help.
func Usage() string {
	var b strings.Builder
	printUsage(agentFlags(&Options{}, &rawValues{}), &b)
	return b.String()
}

// flagError returns the error about an unknown or invalid flag, with the nearest flag as a hint.
func flagError(set *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return model.Errorf(model.Invalid, "%w", err).WithHint("all settings: muster-agent --help")
	}
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	e := model.Errorf(model.Invalid, "unknown flag --%s", name)
	if name == "data" {
		return e.WithHint("the agent's folder is --state-dir; all settings: muster-agent --help")
	}
	if near := model.Nearest(name, names); near != "" {
		return e.WithHint("did you mean --%s? all settings: muster-agent --help", near)
	}
	return e.WithHint("all settings: muster-agent --help")
}

// Reference returns the reference page of the agent's settings, docs/reference/agent.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Settings of the agent

The same for ` + "`muster-agent` and `muster agent`" + `. Flags override the environment, which overrides the settings
file (` + "`--config`" + `: lines of ` + "`MUSTER_NAME=value`" + `, written by ` + "`muster-agent join`" + `), which overrides the defaults. The agent reports all wrong
settings at once and does not start with them. A changed setting needs a restart of the agent; a changed check does not. This page is generated from the code.

| setting | default | meaning |
|---|---|---|
`)
	var alone []*flag.Flag
	agentFlags(&Options{}, &rawValues{}).VisitAll(func(f *flag.Flag) {
		if variableOfFlag(f) == "" {
			alone = append(alone, f)
			return
		}
		meaning, otherwise, _ := strings.Cut(strings.TrimSuffix(f.Usage, ")"), " (default: ")
		if otherwise == "" && f.DefValue != "" {
			otherwise = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s`<br>`%s` | %s | %s |\n", f.Name, variableOfFlag(f), otherwise, meaning)
	})
	b.WriteString("\nFlags for other tasks:\n\n")
	for _, f := range alone {
		fmt.Fprintf(&b, "- `--%s`: %s\n", f.Name, f.Usage)
	}
	for _, c := range subcommands() {
		fmt.Fprintf(&b, "\n## muster-agent %s\n\n```\n%s```\n", c.name, c.help())
	}
	b.WriteString(`
## Stored data

How a machine joins, and what the two commands do: [machines](../machines.md). A machine that joins gets a
certificate in its state folder. Do not delete that folder: it contains the node's identity and the results that the
server has not acknowledged yet. If ` + "`GOGC` and `GOMEMLIMIT`" + ` are not set, the agent limits its heap.

Built-in checks: [probes](probes.md). Capacity and overflow of the agent's spool: [queues](queues.md).
`)
	b.WriteString(proxyPage)
	return b.String()
}

// settingLine is one line of the settings file with a setting's name and value.
type settingLine struct {
	name  string // MUSTER_STATE_DIR
	value string
	flag  *flag.Flag
}

// readSettings reads the settings file. The error lists every invalid line.
func readSettings(path string, set *flag.FlagSet) ([]settingLine, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	settings, err := parseSettings(data, set)
	if err != nil {
		said := model.Errorf(model.Invalid, "read the settings in %s: %w", path, err)
		return nil, said.WithHint("all settings: muster-agent --help")
	}
	return settings, nil
}

// parseSettings parses lines of NAME=value. Empty lines and lines with # are ignored. A value may be in quotes, as in
// systemd.
func parseSettings(data []byte, set *flag.FlagSet) ([]settingLine, error) {
	known := map[string]*flag.Flag{}
	set.VisitAll(func(f *flag.Flag) {
		if name := variableOfFlag(f); name != "" && name != "MUSTER_CONFIG" {
			known[name] = f
		}
	})
	var out []settingLine
	var errs []error
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok {
			errs = append(errs, fmt.Errorf("line %d is %q, expected NAME=value", number, text))
			continue
		}
		f := known[name]
		if f == nil {
			hint := ""
			if near := model.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
				hint = "; did you mean " + near + "?"
			}
			errs = append(errs, fmt.Errorf("line %d: unknown setting %s%s", number, name, hint))
			continue
		}
		out = append(out, settingLine{name, unquoteValue(strings.TrimSpace(value)), f})
	}
	return out, errors.Join(errs...)
}

// unquoteValue removes the quotes around a value of the agent's settings file.
func unquoteValue(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// quoteValue quotes a value of the settings file if its characters need quotes.
func quoteValue(s string) string {
	if s != strings.TrimSpace(s) || s != unquoteValue(s) {
		return `"` + s + `"`
	}
	return s
}

const settingsHead = "# Settings of muster-agent; see muster-agent --help\n"

// changeSettings sets new values for the given settings in the text of a settings file. A name with an empty value is
// removed. Other lines stay.
func changeSettings(text string, change map[string]string) string {
	text = cmp.Or(text, settingsHead)
	done := map[string]bool{}
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, _, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		value, changes := change[name]
		if !ok || !changes {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		} else if value != "" && !done[name] {
			b.WriteString(name + "=" + quoteValue(value) + "\n")
		}
		done[name] = done[name] || ok && changes
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if !done[name] && change[name] != "" {
			b.WriteString(name + "=" + quoteValue(change[name]) + "\n")
		}
	}
	return b.String()
}

// writeSettings changes some settings in the settings file and keeps all other lines. Only its owner can read it,
// because it may have a token.
func writeSettings(path string, change map[string]string) error {
	for name, value := range change {
		if strings.ContainsAny(value, "\n\r") {
			return model.Errorf(model.Invalid, "%s has more than one line, which a settings file cannot store", name)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	after := changeSettings(string(before), change)
	if after == string(before) {
		return nil
	}
	if err := disk.WriteFile(disk.OS{}, filepath.Dir(path), filepath.Base(path), []byte(after)); err != nil {
		return fmt.Errorf("write settings %s: %w", path, err)
	}
	return nil
}

// subcommand describes one subcommand of muster-agent, such as join.
type subcommand struct {
	name         string
	maxArguments int                 // largest number of arguments
	usageText    string              // usage and description
	flags        func(*flag.FlagSet) // adds its own flags
	run          func(ctx context.Context, o *Options, env Env) error
}

// subcommands returns the subcommands join and reset-identity.
func subcommands() []subcommand {
	j, r := &joiner{}, &identityReset{}
	return []subcommand{
		{name: "join", maxArguments: 1, usageText: joinUsage, flags: j.declareFlags, run: j.runJoin},
		{name: "reset-identity", usageText: resetUsage, flags: r.declareFlags, run: r.runReset},
	}
}

// SubcommandHelp maps the name of each subcommand to its --help text.
func SubcommandHelp() map[string]string {
	out := map[string]string{}
	for _, c := range subcommands() {
		out[c.name] = c.help()
	}
	return out
}

// help returns the --help text of the subcommand, with only its own flags.
func (c subcommand) help() string {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	c.flags(set)
	var b strings.Builder
	b.WriteString(c.usageText)
	set.SetOutput(&b)
	set.PrintDefaults()
	return b.String()
}

// usage prints the help of the subcommand, or of the agent itself if the subcommand has no name.
func (c subcommand) usage(set *flag.FlagSet, w io.Writer) {
	if c.name == "" {
		printUsage(set, w)
		return
	}
	fmt.Fprint(w, c.help())
}

// extraArgument returns the error for an argument that the subcommand does not take.
func (c subcommand) extraArgument(word string) error {
	if c.name != "" {
		return fmt.Errorf("unexpected argument %q of %s", word, c.name)
	}
	var names []string
	for _, c := range subcommands() {
		names = append(names, c.name)
	}
	err := model.Errorf(model.Invalid, "unexpected argument %q: the agent takes flags only", word)
	if strings.HasPrefix(word, "mj1.") {
		return err.WithHint("to join with this token: muster-agent join TOKEN")
	}
	for _, name := range names {
		if word == name {
			return err.WithHint("the command comes first: muster-agent %s", name)
		}
	}
	if near := model.Nearest(word, names); near != "" {
		return err.WithHint("did you mean muster-agent %s? all settings: muster-agent --help", near)
	}
	return errors.New(err.Message)
}
