package model

import (
	"encoding/json"
	"testing"
)

func TestStreamsAreTextInJSON(t *testing.T) {
	for _, id := range []StreamID{0, 7, 1 << 53, 1<<64 - 1} {
		data, err := json.Marshal(Event{Stream: id})
		var m map[string]any
		var e Event
		if err != nil || json.Unmarshal(data, &m) != nil || json.Unmarshal(data, &e) != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if m["stream"] != id.String() || e.Stream != id {
			t.Errorf("%d became %v and %d", id, m["stream"], e.Stream)
		}
	}
	var id StreamID
	if err := id.UnmarshalText([]byte("no number")); ClassOf(err) != Invalid {
		t.Errorf("no number: %v", err)
	}
}
