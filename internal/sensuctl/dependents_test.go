package sensuctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A set that sensuctl makes lets each of its handlers hear by that one's own filters and mutator.
func TestSetUsesFiltersOfMembers(t *testing.T) {
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
		w.expect(201, "PUT", core+"/"+path, body)
	}
	data, err := json.Marshal(w.resource("Pipeline", model.SensuPipeline("all")).Spec)
	const want = `{"workflows":[{"name":"chat","filters":["hourly"],"mutator":"strip","handler":"chat"},{"name":"log","handler":"log"},` +
		`{"name":"page","filters":["is_incident","not_silenced"],"handler":"page"}]}`
	if err != nil || string(data) != want {
		t.Errorf("%s %v\nwant %s", data, err, want)
	}
}

// A set follows its members: what they are filtered by, those that come later, and sets within it.
func TestSetFollowsMembers(t *testing.T) {
	w := newWorld(t)
	put := func(status int, o string) string {
		path, body, _ := strings.Cut(o, " ")
		return w.expect(status, "PUT", core+"/"+path, body)
	}
	is := func(set, want string) {
		t.Helper()
		var flows []string
		for _, f := range w.resource("Pipeline", model.SensuPipeline(set)).Spec.(*model.PipelineSpec).Workflows {
			flows = append(flows, f.Handler+":"+strings.Join(f.Filters, "+"))
		}
		if got := strings.Join(flows, " "); got != want {
			t.Errorf("%s is %s, want %s", set, got, want)
		}
	}
	if said := put(422, `handlers/all {"type":"set","handlers":["chat","page"]}`); !strings.Contains(said, "after its handlers") {
		t.Error(said)
	}
	put(201, `filters/hourly {"action":"allow","expressions":["event.check.occurrences == 1"]}`)
	put(201, `filters/often {"action":"allow","expressions":["event.check.occurrences == 2"]}`)
	put(201, `handlers/chat {"type":"pipe","command":"cat","filters":["hourly"]}`)
	put(201, `handlers/all {"type":"set","handlers":["chat","page","inner"]}`)
	is("all", "chat:hourly")
	if said := w.resource("Pipeline", "sensu-all").Metadata.Annotations[notCarried]; said != "handler page does not exist yet; handler inner does not exist yet" {
		t.Error(said)
	}
	put(201, `handlers/chat {"type":"pipe","command":"cat","filters":["often"]}`)
	is("all", "chat:often")
	put(201, `handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]}`)
	is("all", "chat:often page:is_incident+not_silenced")
	put(201, `handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514}}`)
	put(201, `handlers/inner {"type":"set","handlers":["log","chat"]}`)
	is("all", "chat:often page:is_incident+not_silenced log:")
	if said := w.resource("Pipeline", "sensu-all").Metadata.Annotations[notCarried]; said != "" {
		t.Error(said)
	}
	put(201, `handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514},"filters":["hourly"]}`)
	is("all", "chat:often page:is_incident+not_silenced log:hourly")
	is("inner", "log:hourly chat:often")
	put(201, `handlers/outer {"type":"set","handlers":["inner"]}`)
	is("outer", "log:hourly chat:often")
	put(201, `handlers/inner {"type":"set","handlers":["log","inner"]}`)
	is("inner", "log:hourly")
	is("outer", "log:hourly")
	for _, name := range []string{"outer", "inner", "all", "log"} {
		w.expect(204, "DELETE", core+"/handlers/"+name, "")
	}
	w.expect(404, "DELETE", core+"/handlers/log", "")
	w.expect(404, "GET", core+"/pipelines/sensu-log", "")
	put(201, `checks/c {"command":"x","interval":60,"subscriptions":["linux"],"publish":true,"handlers":["chat"]}`)
	if said := w.expect(409, "DELETE", core+"/handlers/chat", ""); !strings.Contains(said, "check/c") {
		t.Error(said)
	}
}
