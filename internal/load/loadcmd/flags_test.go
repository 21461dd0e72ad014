package loadcmd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestNewWritesAScenario expects a valid scenario from muster load new.
func TestNewWritesAScenario(t *testing.T) {
	text, err := loadCommand(t, "", "new", "--agents", "7", "--checks", "3", "--interval", "2s", "--tls", "--status-changes", "0")
	testenv.NoError(t, err)
	sc, err := scenario.Parse("mine.yaml", []byte(text))
	testenv.NoError(t, err)
	if sc.Nodes("") != 7 || sc.States() != 21 || sc.Rate() != 10.5 || !sc.Agents[0].TLS || sc.Measured() != 65*time.Second {
		t.Errorf("%d nodes, %d states, %g results/s, %s:\n%s", sc.Nodes(""), sc.States(), sc.Rate(), sc.Measured(), text)
	}
}

// TestFlagsThatFit expects that needed flags are accepted.
func TestFlagsThatFit(t *testing.T) {
	for args, target := range map[string]string{
		"--quick --scale=2 --server-binary=x --server-flag=x --loaders=2 --listen-join=x --goal=rate=1 --out=x --title=x --seed=1 --max-lag=1s --sources=1": "",
		"--quick --server=x:1 --server-plain=x --identities=x --data=x --uncompared --admin=x --server-pid=1 --loaders=2":                                   "",
		"--server=ws://x --server-pid=1 --sensu-api=x --sensu-user=x --sensu-agent-user=x --sensu-json --sensu-ca=x --sensu-bridge --admin=x --max-lag=1s":  "sensu",
	} {
		o := &runner{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.flagsOf(f)
		testenv.NoError(t, f.Parse(strings.Fields(args)))
		if err := o.fits(f, &scenario.Scenario{Target: target}); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestServerThatNobodyIsLoggedInTo expects an error about the server of --server, without the hint of the API's client.
func TestServerThatNobodyIsLoggedInTo(t *testing.T) {
	inner := model.Errorf(model.Unavailable, "cannot reach it").WithHint("name another with --server")
	err := otherServer("10.0.0.7:8444", "the login is to https://a:8443", inner)
	if text := err.Error(); model.ClassOf(err) != model.Unavailable || !strings.HasPrefix(text, "--server 10.0.0.7:8444: the login is to https://a:8443: cannot reach it\n  muster login ") || strings.Contains(text, "another") {
		t.Errorf("%s", text)
	}
}

// TestGoals expects a list of all figures for --goal help.
func TestGoals(t *testing.T) {
	text, err := loadCommand(t, "", "run", "--goal", "help")
	if err != nil || strings.Count(text, "\n") != 1+len(scenario.Figures()) || !strings.Contains(text, "server-cpu      at most   µs ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestRecordLooksOnceMore ends a recording, and expects the results that came since the last look.
func TestRecordLooksOnceMore(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	more := listen(ctx, time.Now().Add(time.Hour))
	if first, second := more(), more(); !first || second {
		t.Errorf("after the end: %t, then %t", first, second)
	}
	if listen(t.Context(), time.Now().Add(-time.Hour))() {
		t.Error("it listens beyond the time")
	}
}

// TestRecordTimes parses times with and without a zone, and as durations before now.
func TestRecordTimes(t *testing.T) {
	here := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, here)
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 23, hour, minute, 0, 0, here) }
	for _, c := range []struct {
		name         string
		r            recording
		since, until time.Time
		says         string
	}{
		{name: "all"},
		{name: "ago", r: recording{since: "90m"}, since: at(10, 30)},
		{name: "a day ago", r: recording{since: "1d"}, since: at(12, 0).AddDate(0, 0, -1)},
		{name: "from now on", r: recording{length: time.Hour}, since: now, until: at(13, 0)},
		{name: "from then on", r: recording{since: "2026-11-23 08:00", length: time.Hour}, since: at(8, 0), until: at(9, 0)},
		{name: "elsewhere", r: recording{since: "2026-11-23T08:00:00Z", length: 30 * time.Minute}, since: at(10, 0), until: at(10, 30)},
		{name: "noon", r: recording{since: "noon"}, says: `--since "noon" is no time`},
		{name: "backwards", r: recording{length: -time.Hour}, says: "want a length"},
	} {
		o, err := c.r.options(now)
		if c.says != "" {
			if model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.name, err, c.says)
			}
		} else if err != nil || !o.Since.Equal(c.since) || !o.Until.Equal(c.until) {
			t.Errorf("%s: %v, from %s to %s", c.name, err, o.Since, o.Until)
		}
	}
}
