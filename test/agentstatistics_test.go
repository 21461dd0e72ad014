//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/version"
	"github.com/muster-fleet/muster/test/harness"
)

// An agent tells of itself some seconds after it joined: get agents shows it, and /metrics
// the fleet's sums.
func TestAgentStatistics(t *testing.T) {
	t.Parallel()
	s, _ := startUp(t)
	s.Start()
	var a v1.Agent
	harness.Until(t, 40*time.Second, "the agent has told of itself", func() (string, bool) {
		var list v1.AgentList
		text := s.CLI("get", "agents", "-o", "json")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return text, false
		}
		if len(list.Items) != 1 || list.Items[0].Session == nil || list.Items[0].Session.Stats == nil {
			return text, false
		}
		a = list.Items[0]
		return text, true
	})
	st := a.Session.Stats
	if a.Version == "" || !strings.HasPrefix(a.Session.Address, "127.0.0.1:") && !strings.HasPrefix(a.Session.Address, "[::1]:") {
		t.Errorf("version %q from %q (this build is %s)", a.Version, a.Session.Address, version.Get().Version)
	}
	if days := time.Until(a.Session.CertificateExpires).Hours() / 24; days < 1 {
		t.Errorf("its certificate expires in %.1f days", days)
	}
	if st.ResidentBytes < 1<<20 || st.BytesSent == 0 || a.Session.ClockOffsetMs > 1000 || a.Session.ClockOffsetMs < -1000 {
		t.Errorf("%+v", a.Session)
	}
	if out := s.CLI("get", "agents"); !strings.Contains(out, "\n1 agent: 1 of "+a.Version+"\n") {
		t.Error(out)
	}
	if out := s.CLI("describe", "node", a.Name); !strings.Contains(out, "\nload  ") {
		t.Error(out)
	}
	if told := s.Metric("muster_agents_told"); told != 1 {
		t.Error(fmt.Sprint("agents that told on /metrics: ", told))
	}
	s.Stop()
}
