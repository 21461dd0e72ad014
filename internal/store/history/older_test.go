package history

import (
	"reflect"
	"testing"
)

// Before each handler had ids of its own, all knew a problem by that of its group, and whether it was
// acknowledged was noted once.
func TestWhatHandlersKnewBefore(t *testing.T) {
	pager, lead := HandlerRef{"default", "pager"}, HandlerRef{"default", "lead"}
	for body, want := range map[string][]Told{
		`{"lead":"p1","told":[{"namespace":"default","name":"pager"},{"namespace":"default","name":"lead"}],"acked":true}`: {{pager, "p1", true}, {lead, "p1", true}},
		`{"lead":"p1","told":[{"namespace":"default","name":"pager"}]}`:                                                    {{pager, "p1", false}},
		`{"lead":"p1","told":[{"namespace":"default","name":"pager","under":"p2.1"}],"acked":true}`:                        {{pager, "p2.1", false}},
		`{"lead":"p1","acked":true}`: nil,
	} {
		if e, err := decodeEscalation(EscalationKey{Problem: "p1"}, []byte(body)); err != nil || !reflect.DeepEqual(e.Told, want) {
			t.Errorf("%s: %+v, %v", body, e.Told, err)
		}
	}
}
