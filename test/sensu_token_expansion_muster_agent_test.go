//go:build linux

package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// TestMusterAgentExpandsSensuTokens runs imported Sensu checks on a muster-agent, and expects the node's values in
// place of tokens. Tokens are of its own node, also for a proxy entity that the check names (proxy_entity_name); for
// proxy entities that a condition selects they are theirs.
func TestMusterAgentExpandsSensuTokens(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	proxy := `{"type": "Entity", "api_version": "core/v2", "metadata": {"namespace": "default", "name": "SW-1", "labels": {"kind": "switch", "site": "hq"}}, "spec": {"entity_class": "proxy"}}` + "\n"
	importSensu(t, s, sensuCheck("own", "echo {{ .name }} at {{ .labels.site }}", "")+
		sensuCheck("website", "echo from {{ .labels.site }}", `, "proxy_entity_name": "example.com"`)+
		sensuCheck("uplink", "echo {{ .name }} at {{ .labels.site }}", `, "proxy_requests": {"entity_attributes": ["entity.labels.kind == 'switch'"]}`)+proxy)
	s.StartAgent("web01", "--labels", "site=paris", "--groups", "web")
	for _, e := range [][3]string{{"web01", "own", "web01 at paris"}, {"example.com", "website", "from paris"}, {"sw-1", "uplink", "SW-1 at hq"}} {
		harness.Until(t, 60*time.Second, e[2], func() (string, bool) {
			got := getEvent(t, s.API, e[0], e[1])
			return fmt.Sprintf("%s/%s: %v %q", e[0], e[1], got.Status, got.Output), got.Output == e[2] && got.Status == model.OK
		})
	}
}
