package agentcmd

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFlagsOverEnvironmentOverDefaults sets the same option in several places, and expects flags to win over the
// environment. Both win over the default.
func TestFlagsOverEnvironmentOverDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	testenv.NoError(t, os.WriteFile(file, []byte("mj1.x\n"), 0o600))
	env := map[string]string{
		"MUSTER_SERVER": "a:1, b:2", "MUSTER_NAME": "from-env", "MUSTER_LABELS": "env=prod,tier=1",
		"MUSTER_TOKEN": "@" + file, "MUSTER_LOG_LEVEL": "debug", "MUSTER_VERSION": "ignored",
	}
	o, err := Parse([]string{"--name", "from-flag", "--spool-size", "1MiB"}, func(k string) string { return env[k] }, &bytes.Buffer{})
	testenv.NoError(t, err)
	a := o.Agent
	if a.Name != "from-flag" || strings.Join(a.Servers, "|") != "a:1|b:2" || a.Labels["tier"] != "1" || a.Token != "mj1.x" ||
		a.Spool.Bytes != 1<<20 || o.LogLevel != slog.LevelDebug || o.Version || a.StateDir == "" {
		t.Errorf("%+v", o)
	}
}

// TestInvalidSettingsAreReportedTogether passes several invalid flags and expects one error about all invalid flags.
func TestInvalidSettingsAreReportedTogether(t *testing.T) {
	_, err := Parse([]string{"--labels", "x", "--log-level", "loud", "--spool-size", "much", "what"}, func(string) string { return "" }, &bytes.Buffer{})
	for _, want := range []string{"--labels", "--log-level", "--spool-size", `"what"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %s", err, want)
		}
	}
}

// TestUnknownFlagSuggestsTheNearest passes a misspelled flag, and expects a short error with the nearest flag.
func TestUnknownFlagSuggestsTheNearest(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--stat-dir=x", "muster-agent: unknown flag --stat-dir\n  did you mean --state-dir? all settings: muster-agent --help\n"},
		{"--data=x", "muster-agent: unknown flag --data\n  the agent's folder is --state-dir; all settings: muster-agent --help\n"},
		{"--zzz", "muster-agent: unknown flag --zzz\n  all settings: muster-agent --help\n"},
		{"--nice=much", "muster-agent: invalid value \"much\" for flag -nice: parse error\n  all settings: muster-agent --help\n"},
		{"web01", "muster-agent: unexpected argument \"web01\": the agent takes flags only\n  all settings: muster-agent --help\n"},
	} {
		var out, errOut bytes.Buffer
		if code := Main(t.Context(), []string{c.arg}, emptyMachineEnv(t, &out, &errOut)); code != 2 || errOut.String() != c.want {
			t.Errorf("%s: code %d, %q", c.arg, code, errOut.String())
		}
	}
}

// TestProbeFlagRunsOneProbe runs probes by --probe and expects their output and exit code.
func TestProbeFlagRunsOneProbe(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--probe"}, 0, "disk "},
		{[]string{"--probe", "file", "path=/no/such/file", "exists=false"}, 0, "FILE OK"},
		{[]string{"--probe", "file", "path=/no/such/file"}, 2, "FILE CRITICAL"},
		{[]string{"--probe", "fil"}, 3, "did you mean file?"},
		{[]string{"--version"}, 0, "muster "},
	} {
		var out, errOut bytes.Buffer
		code := Main(t.Context(), c.args, emptyMachineEnv(t, &out, &errOut))
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %d %s%s", c.args, code, out.String(), errOut.String())
		}
	}
}

// emptyMachineEnv returns an Env with no environment variables and no settings file.
func emptyMachineEnv(t *testing.T, out, errOut *bytes.Buffer) Env {
	env := map[string]string{"MUSTER_CONFIG": os.DevNull, "MUSTER_STATE_DIR": filepath.Join(t.TempDir(), "state")}
	return Env{Getenv: func(k string) string { return env[k] }, In: strings.NewReader(""), Out: out, Err: errOut}
}

// parseSettingsFile parses command-line arguments together with a settings file of the given text. The environment
// sets only MUSTER_CONFIG and MUSTER_NICE.
func parseSettingsFile(t *testing.T, text string, args ...string) (*Options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.env")
	testenv.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	env := map[string]string{"MUSTER_CONFIG": file, "MUSTER_NICE": "7"}
	return Parse(args, func(k string) string { return env[k] }, &bytes.Buffer{})
}

// TestSettingsFileIsReadAfterEnvironment sets the same options in several places, and expects the settings file
// to have the lowest priority. Flags and environment variables win over the file.
func TestSettingsFileIsReadAfterEnvironment(t *testing.T) {
	o, err := parseSettingsFile(t, "# why\n\n MUSTER_NAME = web01 \nMUSTER_LABELS=\"env=prod,tier=1\"\r\nMUSTER_NICE=1\nMUSTER_AUDIT_ONLY=true\nMUSTER_LOG_LEVEL=debug", "--log-level", "warn")
	testenv.NoError(t, err)
	a := o.Agent
	if a.Name != "web01" || a.Labels["tier"] != "1" || a.Commands.Nice != 7 || !a.Commands.AuditOnly || o.LogLevel.String() != "WARN" {
		t.Errorf("%+v", o)
	}
}

// TestInvalidSettingsFileIsRefused expects every invalid line in the error, with the nearest name of a
// setting.
func TestInvalidSettingsFileIsRefused(t *testing.T) {
	_, err := parseSettingsFile(t, "MUSTER_LABLES=a=b\nhello\nMUSTER_CONFIG=/x\nPATH=/bin\n")
	if err == nil {
		t.Fatal("parseSettingsFile accepts an invalid file")
	}
	for _, want := range []string{"agent.env", "line 1: unknown setting MUSTER_LABLES; did you mean MUSTER_LABELS?", `line 2 is "hello"`, "line 3: unknown setting MUSTER_CONFIG", "line 4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not speak of %q", err, want)
		}
	}
	if _, err := parseSettingsFile(t, "MUSTER_NICE=much\nMUSTER_MAX_CONCURRENT=much\n"); err == nil || !strings.Contains(err.Error(), "MUSTER_MAX_CONCURRENT") || strings.Contains(err.Error(), "MUSTER_NICE") {
		t.Errorf("%v: the environment wins over MUSTER_NICE", err)
	}
	if _, err := Parse([]string{"--config", "/no/such/file"}, func(string) string { return "" }, &bytes.Buffer{}); err == nil {
		t.Error("a missing settings file that --config names is no error")
	}
}

// TestChangedSettingsKeepOtherLines changes some settings in a file, and expects comments and other lines to stay.
func TestChangedSettingsKeepOtherLines(t *testing.T) {
	const before = "# mine\nMUSTER_NAME=a\nMUSTER_TOKEN=mj1.x\nMUSTER_NAME=b"
	got := changeSettings(before, map[string]string{"MUSTER_NAME": " c", "MUSTER_TOKEN": "", "MUSTER_SERVER": "h:1", "MUSTER_NICE": ""})
	if want := "# mine\nMUSTER_NAME=\" c\"\nMUSTER_SERVER=h:1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzSettings writes random values with writeSettings and expects to read the same values.
func FuzzSettings(f *testing.F) {
	f.Add("MUSTER_NAME=\"x\"\n# y\n", "web 01")
	f.Add("MUSTER_NAME", "\"")
	f.Fuzz(func(t *testing.T, text, value string) {
		set := agentFlags(&Options{}, &rawValues{})
		if _, err := parseSettings([]byte(text), set); err != nil || value == "" || strings.ContainsAny(value, "\r\n") {
			return
		}
		got, err := parseSettings([]byte(changeSettings(text, map[string]string{"MUSTER_NAME": value})), set)
		testenv.NoError(t, err)
		for _, s := range got {
			if s.name == "MUSTER_NAME" && s.value != value {
				t.Fatalf("%q became %q", value, s.value)
			}
		}
	})
}

//go:generate go test . -run IsUpToDate -update

const referencePage = "../../../docs/reference/agent.md"

// TestReferencePageIsUpToDate compares docs/reference/agent.md with the agent's flags. The command make docs rewrites
// the page.
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, referencePage, Reference())
}
