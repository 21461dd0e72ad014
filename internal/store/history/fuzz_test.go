package history

import (
	"reflect"
	"testing"
)

// What is read is written as it was, whatever bytes a row holds.
func FuzzDecodeEscalation(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"group":"default/web","lead":"01J","told":["a"],"next":[null]}`))
	f.Add([]byte(`{"problem":"other"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		key := EscalationKey{Problem: "p", Route: "r"}
		read, err := decodeEscalation(key, body)
		if err != nil {
			return
		}
		if read.EscalationKey != key {
			t.Fatalf("the row's key is %v, the escalation says %v", key, read.EscalationKey)
		}
		list, err := encodeEscalations([]Escalation{read})
		if err != nil {
			return // a time beyond the year 9999 is read, and not written
		}
		again, err := decodeEscalation(key, list[0].body)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		twice, err := encodeEscalations([]Escalation{again})
		if err != nil || !reflect.DeepEqual(list[0].body, twice[0].body) {
			t.Fatalf("written %s, then %s (%v)", list[0].body, twice[0].body, err)
		}
	})
}
