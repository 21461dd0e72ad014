package load

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What is no turn of a problem is taken, for a refusal would make the server give the message up, and
// is held against nothing.
func TestOtherMessagesAreTaken(t *testing.T) {
	for body, want := range map[string]int{
		`{"kind":"reminder","namespace":"load","node":"web-00000","check":"disk","was":"WARNING"}`: 204,
		`{"kind":"acknowledged","namespace":"load","node":"web-00000","check":"disk"}`:             204,
		`{"kind":"summary","problems":[]}`:                                                         204,
		`{"kind":"of a version to come"}`:                                                          204,
		`{"kind":"opened","namespace":"load","node":"web-00000"}`:                                  400,
		`{"kind":"closed","namespace":"load","check":"disk"}`:                                      400,
		`kind`: 400,
	} {
		al := &alarms{run: &run{epoch: time.Now()}, checks: map[string]*witness{}, keys: map[string]struct{}{}}
		w := httptest.NewRecorder()
		al.post(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
		if w.Code != want || al.strangers > 0 || len(al.keys) > 0 {
			t.Errorf("%s: answer %d, want %d; %d strangers, %d keys", body, w.Code, want, al.strangers, len(al.keys))
		}
	}
}

// Whatever is posted, it is answered: refused is only what is no message, or a turn of no state.
func FuzzNotification(f *testing.F) {
	f.Add([]byte(`{"version":1,"kind":"opened","namespace":"load","node":"web-00000","check":"web-http-000","expired":true}`))
	f.Add([]byte(`{"version":1,"kind":"reminder","namespace":"load","node":"web-00000","check":"web-http-000","was":"WARNING"}`))
	f.Add([]byte(`{"kind":"opened"}`))
	f.Add([]byte(`{"kind":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		al := &alarms{run: &run{epoch: time.Now()}, checks: map[string]*witness{}, keys: map[string]struct{}{}}
		w := httptest.NewRecorder()
		al.post(w, httptest.NewRequest("POST", "/", bytes.NewReader(body)))
		var said notification
		named := json.Unmarshal(body, &said) == nil && said.Node != "" && said.Check != ""
		if w.Code != 204 && (w.Code != 400 || named) {
			t.Errorf("%q: answer %d", body, w.Code)
		}
	})
}
