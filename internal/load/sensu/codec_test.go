package sensu

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

var update = flag.Bool("update", false, "write the golden files anew")

func fixed() (*entity, *event, *event) {
	x := &entity{name: "web-00000", namespace: "default", user: "agent", subscriptions: []string{"web", "entity:web-00000"}, labels: map[string]string{"class": "web"}}
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	return x, &event{id: id, timestamp: 1795236428, sequence: 1, entity: x, interval: 20, warning: 120},
		&event{id: id, timestamp: 1795236430, sequence: 7, entity: x, issued: 1795236429, executed: 1795236430, duration: 0.25, status: 2, output: "CRITICAL - no"}
}

// The bytes of every kind of message, in both encodings.
func TestGolden(t *testing.T) {
	for name, c := range map[string]codec{"protobuf": protobuf{}, "json": plainText{}} {
		_, alive, result := fixed()
		b := &fake{t: t, json: name == "json"}
		asked := b.request(fakeCheck{Metadata: fakeMeta{"disk", "default"}, Command: "true", Interval: 10, Subscriptions: []string{"web"}, Env: []string{"A=1"}}, 1795236429)
		r, err := c.parseRequest(asked)
		if err != nil || r.name != "disk" || r.interval != 10 || r.issued != 1795236429 || r.key() != "disk" {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.check = r.check
		told := b.config("web-00000", []string{"web"})
		if got, err := c.parseConfig(told); err != nil || got.name != "web-00000" || len(got.subscriptions) != 1 {
			t.Errorf("%s: %v %+v", name, err, got)
		}
		var text bytes.Buffer
		for _, m := range []struct {
			kind string
			body []byte
		}{{typeKeepalive, c.appendEvent(nil, alive)}, {typeEvent, c.appendEvent(nil, result)}, {typeCheckRequest, asked}, {typeEntityConfig, told}} {
			body := m.body
			if name == "protobuf" {
				body = []byte(hex.EncodeToString(body))
			}
			text.WriteString(m.kind + "\n" + string(body) + "\n")
		}
		file := "testdata/messages." + name
		if *update {
			if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(want, text.Bytes()) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text.Bytes(), want)
		}
	}
}

// Every field of a CheckConfig has a place of its own in a Check, and none falls onto what
// the agent itself fills in.
func TestMovedFields(t *testing.T) {
	taken := map[int]bool{22: true, 23: true, 25: true, 26: true, 28: true, 45: true}
	for n := 1; n < 60; n++ {
		to := int(moved(protowire.Number(n)))
		if to == 0 {
			continue
		}
		if taken[to] {
			t.Errorf("%d moves to %d, which is taken", n, to)
		}
		taken[to] = true
	}
}

func FuzzMessage(f *testing.F) {
	b := &fake{}
	check := fakeCheck{Metadata: fakeMeta{"disk", "default"}, Command: "true", Interval: 10}
	for _, b.json = range []bool{false, true} {
		f.Add(append([]byte(typeCheckRequest+"\n"), b.request(check, 5)...))
		f.Add(append([]byte(typeEntityConfig+"\n"), b.config("web", []string{"a"})...))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		_, body, err := parseFrame(message)
		if err != nil {
			return
		}
		for _, c := range []codec{protobuf{}, plainText{}} {
			_, _ = c.parseConfig(body)
			r, err := c.parseRequest(body)
			if err != nil {
				continue
			}
			if r.name == "" {
				t.Error("a check without a name")
			}
			_, _, result := fixed()
			result.check = r.check
			if len(c.appendEvent(nil, result)) <= len(result.output) {
				t.Error("an event without what it says")
			}
		}
	})
}
