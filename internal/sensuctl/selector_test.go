package sensuctl

import (
	"net/url"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
)

func keyOf(kind, name string) intent.Key {
	return intent.Key{Kind: kind, Namespace: "default", Name: name}
}

func TestSelectors(t *testing.T) {
	event := object{
		"entity": object{"metadata": object{"name": "web01", "namespace": "default", "labels": map[string]string{"region": "eu"}}, "subscriptions": []string{"linux", "web", "web01.example.org"}},
		"check":  object{"metadata": object{"name": "disk"}, "status": 2, "is_silenced": true, "output": "disk full"},
	}
	for _, one := range []struct {
		fields, labels string
		want           bool
	}{
		{`event.entity.name == "web01"`, "", true},
		{`event.entity.name == web01`, "", true},
		{`event.entity.name != "web01"`, "", false},
		{`event.check.status == 2 && event.check.name in [disk, "load"]`, "", true},
		{`event.check.status == "2" && event.check.name notin [disk]`, "", false},
		{`linux in event.entity.subscriptions`, "", true},
		{`"db" in event.entity.subscriptions`, "", false},
		{`"db" notin event.entity.subscriptions`, "", true},
		{`event.is_silenced == true`, "", true},
		{`event.check.output matches "full"`, "", true},
		{`event.check.output matches 'empty'`, "", false},
		{`event.entity.labels.region == eu`, "", true},
		{`event.labels.region == eu && event.labels.rack != a`, "", true},
		{`web01.example.org in event.entity.subscriptions`, "", true},
		{`entity:db.example.org notin event.entity.subscriptions`, "", true},
		{`event.entity.labels.rack == "a"`, "", false},
		{"", `region == eu`, true},
		{"", `region in [us, "ap"]`, false},
		{"", `rack == a`, false},
		{`event.check.name=="disk"`, `region!=us`, true},
	} {
		query := url.Values{}
		if one.fields != "" {
			query.Set("fieldSelector", one.fields)
		}
		if one.labels != "" {
			query.Set("labelSelector", one.labels)
		}
		chosen, err := parseSelectors(query, "events")
		if err != nil {
			t.Errorf("%v: %v", one, err)
		} else if got := chosen.match("events", event); got != one.want {
			t.Errorf("%v: %v", one, got)
		}
	}
	for kind, texts := range map[string][]string{
		"events":   {`event.no.such == "x"`, `check.name == disk`, `name == disk`, `event.check.nosuch != 1`, `event.entity.check == 1`, `web in event.entity.subs`, `web in subscriptions`},
		"checks":   {`entity.name == web`, `check.nosuch == x`, `check.status == 2`, `check. == x`, `check == x`},
		"entities": {`entity.command == x`, `event.entity.name == web`},
	} {
		for _, text := range texts {
			if _, err := parseSelectors(url.Values{"fieldSelector": {text}}, kind); err == nil || !strings.Contains(err.Error(), "is no field of this list") || !strings.Contains(err.Error(), types[kind].word+".") {
				t.Errorf("%s: %s: %v", kind, text, err)
			}
		}
	}
	for _, wrong := range []string{`x`, `x ==`, `x == y z`, `x = y`, `x in [a`, `"x`, `x == y &&`, `&& x == y`} {
		if got, err := parseSelector(wrong); err == nil {
			t.Errorf("%s: %v", wrong, got)
		}
	}
}
