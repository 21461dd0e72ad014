package alerts

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/clock"
)

// hearing returns a listener without a socket, with a fixed clock.
func hearing() *Listener {
	return &Listener{run: Run{Clock: &clock.Clock{Epoch: time.Now().Add(-5 * time.Second)}}, checks: map[string]*Witness{}, machines: map[string]*machine{}, keys: map[string]struct{}{}}
}

// TestAlertsThatNobodyAskedFor posts alerts of checks that the run does not watch, and expects that they are counted.
func TestAlertsThatNobodyAskedFor(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"opened","namespace":"load","node":"web-00000","check":"disk"}`:         "load/web-00000/disk",
		`{"kind":"opened","namespace":"mine","node":"web-00000","check":"web-http-000"}`: "mine/web-00000/web-http-000",
		`{"kind":"closed","namespace":"load","node":"other","check":"web-http-000"}`:     "load/other/web-http-000",
		`{"kind":"closed","namespace":"load","node":"web-00000","check":"web-http-000"}`: "",
	} {
		l := hearing()
		l.WatchCheck("web-00000", "web-http-000", true, false)
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
		if got, _ := l.Seen(0); got.Stranger != want || got.Strangers > 0 != (want != "") || w.Code != 204 {
			t.Errorf("%s: %d, %+v", body, w.Code, got)
		}
	}
}

// TestOtherMessagesAreTaken posts reminders and other kinds, and expects that they are accepted and not counted.
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
		l := hearing()
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
		if w.Code != want || l.seen.Strangers > 0 || len(l.keys) > 0 {
			t.Errorf("%s: answer %d, want %d; %d strangers, %d keys", body, w.Code, want, l.seen.Strangers, len(l.keys))
		}
	}
}

// FuzzNotification posts random bodies, and expects that only malformed messages are refused.
func FuzzNotification(f *testing.F) {
	f.Add([]byte(`{"version":1,"kind":"opened","namespace":"load","node":"web-00000","check":"web-http-000","expired":true}`))
	f.Add([]byte(`{"version":1,"kind":"reminder","namespace":"load","node":"web-00000","check":"web-http-000","was":"WARNING"}`))
	f.Add([]byte(`{"kind":"opened"}`))
	f.Add([]byte(`{"kind":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := hearing()
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequest("POST", "/", bytes.NewReader(body)))
		var said notification
		named := json.Unmarshal(body, &said) == nil && said.Node != "" && said.Check != ""
		if w.Code != 204 && (w.Code != 400 || named) {
			t.Errorf("%q: answer %d", body, w.Code)
		}
	})
}
