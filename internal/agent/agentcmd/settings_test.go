package agentcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settingsOf parses with a file of settings and nothing else.
func settingsOf(t *testing.T, text string, args ...string) (*Options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MUSTER_CONFIG": file, "MUSTER_NICE": "7"}
	return Parse(args, func(k string) string { return env[k] }, &bytes.Buffer{})
}

func TestFileOfSettings(t *testing.T) {
	o, err := settingsOf(t, "# why\n\n MUSTER_NAME = web01 \nMUSTER_LABELS=\"env=prod,tier=1\"\r\nMUSTER_NICE=1\nMUSTER_AUDIT_ONLY=true\nMUSTER_LOG_LEVEL=debug", "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	a := o.Agent
	if a.Name != "web01" || a.Labels["tier"] != "1" || a.Commands.Nice != 7 || !a.Commands.AuditOnly || o.LogLevel.String() != "WARN" {
		t.Errorf("%+v", o)
	}
}

// Every line that is wrong is named, with the setting that was meant.
func TestFileOfSettingsIsRefused(t *testing.T) {
	_, err := settingsOf(t, "MUSTER_LABLES=a=b\nhello\nMUSTER_CONFIG=/x\nPATH=/bin\n")
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"agent.env", "line 1: there is no setting MUSTER_LABLES; did you mean MUSTER_LABELS?", `line 2: "hello"`, "line 3: there is no setting MUSTER_CONFIG", "line 4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not speak of %q", err, want)
		}
	}
	if _, err := settingsOf(t, "MUSTER_NICE=much\nMUSTER_MAX_CONCURRENT=much\n"); err == nil || !strings.Contains(err.Error(), "MUSTER_MAX_CONCURRENT") || strings.Contains(err.Error(), "MUSTER_NICE") {
		t.Errorf("%v: the environment wins over MUSTER_NICE", err)
	}
	if _, err := Parse([]string{"--config", "/no/such/file"}, func(string) string { return "" }, &bytes.Buffer{}); err == nil {
		t.Error("a file that was named and is not there is taken for an empty one")
	}
}

func TestChangeSettings(t *testing.T) {
	const before = "# mine\nMUSTER_NAME=a\nMUSTER_TOKEN=mj1.x\nMUSTER_NAME=b"
	got := changeSettings(before, map[string]string{"MUSTER_NAME": " c", "MUSTER_TOKEN": "", "MUSTER_SERVER": "h:1", "MUSTER_NICE": ""})
	if want := "# mine\nMUSTER_NAME=\" c\"\nMUSTER_SERVER=h:1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What keepSettings writes is read back as it was.
func FuzzSettings(f *testing.F) {
	f.Add("MUSTER_NAME=\"x\"\n# y\n", "web 01")
	f.Add("MUSTER_NAME", "\"")
	f.Fuzz(func(t *testing.T, text, value string) {
		set := flags(&Options{}, &rawValues{})
		if _, err := parseSettings([]byte(text), set); err != nil || value == "" || strings.ContainsAny(value, "\r\n") {
			return
		}
		got, err := parseSettings([]byte(changeSettings(text, map[string]string{"MUSTER_NAME": value})), set)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			if s.name == "MUSTER_NAME" && s.value != value {
				t.Fatalf("%q became %q", value, s.value)
			}
		}
	})
}
