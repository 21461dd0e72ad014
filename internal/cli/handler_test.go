package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/store/history"
)

func TestHandlerCommands(t *testing.T) {
	rig, x := openTerminal(t)
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/services/s3cret" || !strings.Contains(string(body), "TEST: admin tries handler chat") {
			t.Errorf("%s %s", r.URL.Path, body)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "ok")
	}))
	defer service.Close()
	x.file("chat.yaml", "kind: Handler\nmetadata: {name: chat}\nspec:\n  slack: {url: \""+service.URL+"/services/s3cret\"}\n")
	expect := func(line string, code int, want ...string) {
		t.Helper()
		x.text.Reset()
		_, got := x.run("", line)
		for _, text := range want {
			if got != code || !strings.Contains(x.text.String(), text) {
				t.Fatalf("want code %d and %q in\n%s", code, text, x.text.String())
			}
		}
	}
	expect("apply -f DIR/chat.yaml", 0, "created")
	expect("handler test chat", 0, "POST "+service.URL+"/(hidden)", "200 OK", "handler chat took the message")
	if strings.Contains(x.text.String(), "s3cret") {
		t.Errorf("shown:\n%s", x.text.String())
	}
	status = http.StatusServiceUnavailable
	expect("handler test chat", 9, "503", "try a real message again", "muster edit handler chat")
	status = http.StatusNotFound
	expect("handler test chat -o json", 2, `"outcome": "final"`)
	expect("handler test chta", 3, "did you mean chat?")
	expect("handler test chat --node nobody", 3, "nobody")
	expect("audit run", 0, "a test of handler default/chat")

	expect("handler dead chat", 0, "no dead letters")
	expect("handler replay chat", 0, "0 messages queued again")
	var list []history.Delivery
	for i := range 3 {
		list = append(list, history.Delivery{
			Key: fmt.Sprint(i), Problem: fmt.Sprint("p", i), Handler: history.HandlerRef{Namespace: "default", Name: "chat"}, Kind: "opened",
			Payload: []byte(`{"summary":"CRITICAL: disk on web01: full"}`), Created: rig.Now(), State: history.Dead, LastError: "slack answered 404", Ended: rig.Now().Add(-time.Minute),
		})
	}
	if err := rig.History.Record(t.Context(), history.Batch{Deliveries: list}); err != nil {
		t.Fatal(err)
	}
	expect("handler dead chat", 0, "CRITICAL: disk on web01: full", "slack answered 404", "1m ago", "muster handler replay chat")
	expect("handler replay chat", 0, "0 messages queued again", "3 dead letters skipped", "--ended")
	expect("handler replay chat x", 2, "muster handler dead chat")
	expect("handler replay chat 1 --ended", 0, "1 message queued again")
	expect("handler replay chat --ended --limit 1 -m mended", 0, "1 message queued again", "1 dead letter more")
	expect("audit run", 0, "a replay of dead letters of handler default/chat: mended")
}
