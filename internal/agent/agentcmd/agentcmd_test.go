package agentcmd

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsOverEnvironmentOverDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("mj1.x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"MUSTER_SERVER": "a:1, b:2", "MUSTER_NAME": "from-env", "MUSTER_LABELS": "env=prod,tier=1",
		"MUSTER_TOKEN": "@" + file, "MUSTER_LOG_LEVEL": "debug", "MUSTER_VERSION": "ignored",
	}
	o, err := Parse([]string{"--name", "from-flag", "--spool-size", "1MiB"}, func(k string) string { return env[k] }, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	a := o.Agent
	if a.Name != "from-flag" || strings.Join(a.Servers, "|") != "a:1|b:2" || a.Labels["tier"] != "1" || a.Token != "mj1.x" ||
		a.Spool.Bytes != 1<<20 || o.LogLevel != slog.LevelDebug || o.Version || a.StateDir == "" {
		t.Errorf("%+v", o)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse([]string{"--labels", "x", "--log-level", "loud", "--spool-size", "much", "what"}, func(string) string { return "" }, &bytes.Buffer{})
	for _, want := range []string{"--labels", "--log-level", "--spool-size", `"what"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %s", err, want)
		}
	}
}

// An unknown flag is one message that names the one that was meant, not a page of usage.
func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--stat-dir=x", "muster-agent: unknown flag --stat-dir\n  did you mean --state-dir? all settings: muster-agent --help\n"},
		{"--zzz", "muster-agent: unknown flag --zzz\n  all settings: muster-agent --help\n"},
		{"--nice=much", "muster-agent: invalid value \"much\" for flag -nice: parse error\n  all settings: muster-agent --help\n"},
		{"web01", "muster-agent: \"web01\" is too much: the agent takes flags only\n  all settings: muster-agent --help\n"},
	} {
		var out, errOut bytes.Buffer
		if code := Main(t.Context(), []string{c.arg}, envOfTest(t, &out, &errOut)); code != 2 || errOut.String() != c.want {
			t.Errorf("%s: code %d, %q", c.arg, code, errOut.String())
		}
	}
}

func TestOneProbe(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--probe"}, 0, "disk "},
		{[]string{"--probe", "file", "path=/no/such/file", "exists=false"}, 0, "FILE OK"},
		{[]string{"--probe", "file", "path=/no/such/file"}, 2, "FILE CRITICAL"},
		{[]string{"--probe", "fil"}, 3, "do you mean file?"},
		{[]string{"--version"}, 0, "muster "},
	} {
		var out, errOut bytes.Buffer
		code := Main(t.Context(), c.args, envOfTest(t, &out, &errOut))
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %d %s%s", c.args, code, out.String(), errOut.String())
		}
	}
}

// envOfTest is a machine without settings.
func envOfTest(t *testing.T, out, errOut *bytes.Buffer) Env {
	env := map[string]string{"MUSTER_CONFIG": os.DevNull, "MUSTER_STATE_DIR": filepath.Join(t.TempDir(), "state")}
	return Env{Getenv: func(k string) string { return env[k] }, In: strings.NewReader(""), Out: out, Err: errOut}
}
