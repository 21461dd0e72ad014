package sensuctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A set that sensuctl makes lets each of its handlers hear by that one's own filters and mutator.
func TestASetHasItsMembersFilters(t *testing.T) {
	w := newWorld(t)
	for _, o := range []string{
		`filters/hourly {"action":"allow","expressions":["event.check.occurrences == 1"]}`,
		`mutators/strip {"type":"pipe","command":"strip"}`,
		`handlers/chat {"type":"pipe","command":"cat","filters":["hourly"],"mutator":"strip"}`,
		`handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514}}`,
		`handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]}`,
		`handlers/all {"type":"set","handlers":["chat","log","page"],"filters":["is_incident"]}`,
	} {
		path, body, _ := strings.Cut(o, " ")
		w.want(201, "PUT", core+"/"+path, body)
	}
	data, err := json.Marshal(w.declared("Pipeline", model.SensuPipeline("all")).Spec)
	const want = `{"workflows":[{"name":"chat","filters":["hourly"],"mutator":"strip","handler":"chat"},{"name":"log","handler":"log"},` +
		`{"name":"page","filters":["is_incident","not_silenced"],"handler":"page"}]}`
	if err != nil || string(data) != want {
		t.Errorf("%s %v\nwant %s", data, err, want)
	}
}
