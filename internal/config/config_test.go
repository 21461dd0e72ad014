package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

//go:generate go test . -run TestReferencePageIsUpToDate -update

const referencePage = "../../docs/reference/configuration.md"

// TestReferencePageIsUpToDate compares docs/reference/configuration.md with the settings of the server. The flag
// -update, used by make docs, writes the page.
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, referencePage, Reference())
}

// loadSettings loads server settings from environment variables and flags, for tests
func loadSettings(t *testing.T, env map[string]string, args ...string) (*Server, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	testenv.NoError(t, flags.Parse(args))
	return Load(flags, func(key string) string { return env[key] })
}

// writeSettingsFile writes a settings file and returns its path.
func writeSettingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "muster.yaml")
	testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestPrecedenceOfSettings expects a flag to win over an environment variable, and the variable over the
// settings file. The flag must win over the environment, and the environment over the file.
func TestPrecedenceOfSettings(t *testing.T) {
	path := writeSettingsFile(t, "log-level: debug\nlisten: ':1'\nnode-states: 7\nadvertise: [a, b]\nkeepalive-timeout: 3m\n")
	s, err := loadSettings(t, map[string]string{"MUSTER_LISTEN": ":2", "MUSTER_NODE_STATES": "8"}, "--config", path, "--node-states", "9")
	testenv.NoError(t, err)
	if s.LogLevel != "debug" || s.Listen != ":2" || s.NodeStates != 9 || len(s.Advertise) != 2 ||
		time.Duration(s.KeepaliveTimeout) != 3*time.Minute || s.JournalBudget != 4<<30 {
		t.Fatalf("%+v", s)
	}
}

// TestAllErrorsReportedTogether loads several invalid settings, and expects one error that lists every problem.
func TestAllErrorsReportedTogether(t *testing.T) {
	path := writeSettingsFile(t, "listn: ':1'\nkeepalive-timeout: 5\nlog-level: loud\nseries-range: 5s\nseries-retention: 8s\n")
	_, err := loadSettings(t, map[string]string{"MUSTER_NODE_STATES": "many"}, "--config", path, "--listen-plain", "0.0.0.0:1")
	if model.ClassOf(err) != model.Invalid {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		path + `:1: unknown setting "listn"; did you mean "listen"?`,
		path + `:2: keepalive-timeout: duration "5" has no unit`,
		`environment MUSTER_NODE_STATES: node-states: "many"`,
		"series-range (5s) must be at least 1m", "series-retention (8s) must be at least twice",
		"listen-plain", "loopback", `log-level "loud"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// TestAddressSettingsAreValidated loads valid and invalid addresses and expects an error that names the setting.
func TestAddressSettingsAreValidated(t *testing.T) {
	for given, want := range map[string]string{
		"--advertise=muster.example.org,10.0.0.7:443,fd00::7,[fd00::8],[fd00::9]:443": "",
		"--advertise=https://muster.example.org":                                      `advertise: "https://muster.example.org"`,
		"--advertise=muster:port":                                                     `advertise: "muster:port"`,
		"--agent-servers=muster.example.org:8443,[fd00::7]:8443":                      "",
		"--agent-servers=muster.example.org":                                          "agent-servers: server address \"muster.example.org\" has no port: write muster.example.org:8443",
		"--proxy-from=10.0.0.7,10.0.1.0/24,fd00::/64":                                 "",
		"--proxy-from=haproxy":                                                        `proxy-from: "haproxy": expected addresses or networks`,
		"--remote-write-budget=1MiB":                                                  "",
		"--remote-write-budget=1MiB --remote-write-url=http://x/":                     "remote-write-budget (1MiB) must be at least 64MiB",
		"--proxy-from=0.0.0.0/0":                                                      `proxy-from: "0.0.0.0/0" would make the server trust every client`,
	} {
		_, err := loadSettings(t, nil, strings.Fields(given)...)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}

// TestSettingsHidePasswords expects Server.Settings to return database addresses without passwords.
func TestSettingsHidePasswords(t *testing.T) {
	for _, given := range []string{"postgres://muster:secret@db/muster", "postgresql://db/muster?password=secret", "postgres://secret%zz@db/muster"} {
		s, err := loadSettings(t, nil, "--intent-db", given)
		testenv.NoError(t, err)
		if got := s.Settings()["intent-db"]; strings.Contains(got, "secret") || !strings.HasPrefix(got, "postgres://…") {
			t.Errorf("%s is shown as %q", given, got)
		}
	}
}

// TestDefaultsEqualModelLimits expects the defaults of settings to equal the limits in package model
func TestDefaultsEqualModelLimits(t *testing.T) {
	s, err := loadSettings(t, nil)
	testenv.NoError(t, err)
	for name, is := range map[string][2]any{
		"max-frame":          {int(s.MaxFrame), wire.MaxFrame},
		"max-unacked":        {int(s.MaxUnacked), model.DefaultUnackedBytes},
		"max-output":         {int(s.MaxOutput), model.MaxOutputBytes},
		"node-states":        {s.NodeStates, model.DefaultStatesPerNode},
		"node-rate":          {s.NodeRate, float64(model.DefaultNodeRate)},
		"max-labels":         {s.MaxLabels, model.DefaultLabels},
		"journal-budget":     {int(s.JournalBudget), journal.DefaultBudget},
		"journal-reserve":    {int(s.JournalReserve), journal.DefaultReserve},
		"keepalive-interval": {time.Duration(s.KeepaliveInterval), model.DefaultKeepalive},
		"keepalive-timeout":  {time.Duration(s.KeepaliveTimeout), model.DefaultKeepaliveTimeout},
		"reconnect-grace":    {time.Duration(s.ReconnectGrace), model.DefaultReconnectGrace},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: the tag says %v, the limit is %v", name, is[0], is[1])
		}
	}
}

// TestMisspeltVariablesAreFound sets the misspelt variable MUSTER_LISTN, and expects the suggestion MUSTER_LISTEN.
// Variables of other programs must give no suggestion.
func TestMisspeltVariablesAreFound(t *testing.T) {
	got := MisspeltVariables([]string{"MUSTER_LISTN=:1", "MUSTER_LISTEN=:2", "MUSTER_ADVERTISED=a", "MUSTER_TOKEN=x", "MUSTER_SERVER=x", "MUSTER_LEFT_OUT=x", "LISTN=x", "HOME=/"})
	want := map[string]string{"MUSTER_LISTN": "MUSTER_LISTEN", "MUSTER_ADVERTISED": "MUSTER_ADVERTISE"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzSettingsFile parses random bytes as a settings file, and expects valid settings or an error. An error has a
// text.
func FuzzSettingsFile(f *testing.F) {
	for _, text := range []string{
		"", "listen: ':1'\nnode-states: 7\nadvertise: [a, b]\n", "listn: x", "keepalive-timeout: 5", "- a\n- b", "a: &x [*x]",
		"max-frame: {a: b}", "node-rate: 1e999", "journal-budget: -1", "\xff\xfe", "listen: |\n  a\n  b\n", "? [a]\n: b", "data:", "a: b: c",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Server{}
		for _, err := range parseSettingsFile("f", data, func(f Field, text, where string) {
			_ = setFieldFromText(reflect.ValueOf(s).Elem().Field(f.index), text)
		}) {
			if err.Error() == "" {
				t.Error("a problem without words")
			}
		}
		_ = s.validate()
		_ = s.Settings()
	})
}
