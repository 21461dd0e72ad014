package observe

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestLedgersAndStatesTravel encodes and decodes ledgers and event states, and expects the same.
func TestLedgersAndStatesTravel(t *testing.T) {
	want := Ledger{Member: 4, Name: "web", Node: 7, Stream: 1 << 60, Open: map[int16]uint64{3: 1}, Stays: []Stay{{From: -3, To: Lasts}}, States: Entries{{1, 2, 3, 4, 5, 6}, {Results: 1<<32 - 1}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Ledger
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	var states States
	var in, out []EventState
	for i := range 10_000 {
		in = append(in, EventState{Node: 5, Check: 6, Results: uint64(i), Stream: 1 << 63, Number: 1 << 40, Digest: 1 << 31, Expired: i%2 == 0, Order: 9})
		states.Add(in[i])
	}
	if err := states.Each(func(s EventState) { out = append(out, s) }); err != nil || len(states) < 3 || !reflect.DeepEqual(in, out) {
		t.Errorf("%d of %d states in %d chunks, %v", len(out), len(in), len(states), err)
	}
}

// FuzzLedger decodes random bytes, and expects entries and event states or an error.
func FuzzLedger(f *testing.F) {
	f.Add([]byte(`"AAAAAQAAAAIAAAADAAAABAAFAAY="`))
	f.Add([]byte{5, 6, 1, 0, 0, 0, 0, 0, 0, 0, 7, 18, 0, 0, 0, 6, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if list := (Entries{}); list.UnmarshalJSON(data) == nil && len(list) > len(data) {
			t.Errorf("%d entries of %d bytes", len(list), len(data))
		}
		var again States
		if (States{data}).Each(func(s EventState) { again.Add(s) }) == nil && len(data) > 0 && len(again) == 0 {
			t.Error("states are lost")
		}
	})
}
