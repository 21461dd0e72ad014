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
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestHandlerCommands expects the handler commands to send a test notification, and to list and replay dead
// letters.
func TestHandlerCommands(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/services/s3cret" || !strings.Contains(string(body), "TEST: Test by admin of handler chat") {
			t.Errorf("%s %s", r.URL.Path, body)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "ok")
	}))
	defer service.Close()
	x.writeFile("chat.yaml", "kind: Handler\nmetadata: {name: chat}\nspec:\n  slack: {url: \""+service.URL+"/services/s3cret\"}\n")

	x.expectOutput("", "apply -f DIR/chat.yaml", 0, "created")
	x.expectOutput("", "handler test chat", 0, "POST "+service.URL+"/(hidden)", "200 OK", "handler chat accepted the message")
	if strings.Contains(x.text.String(), "s3cret") {
		t.Errorf("the output shows the secret:\n%s", x.text.String())
	}
	status = http.StatusServiceUnavailable
	x.expectOutput("", "handler test chat", 9, "503", "would retry a real message", "muster edit handler chat")
	status = http.StatusNotFound
	x.expectOutput("", "handler test chat -o json", 2, `"outcome": "final"`)
	x.expectOutput("", "handler test chta", 3, "did you mean chat?")
	x.expectOutput("", "handler test chat --node nobody", 3, "nobody")
	x.expectOutput("", "audit run", 0, "a test of handler default/chat")

	x.expectOutput("", "handler dead chat", 0, "no dead letters")
	x.expectOutput("", "handler replay chat", 0, "0 messages queued again")
	var list []history.Delivery
	for i := range 3 {
		list = append(list, history.Delivery{
			Key: fmt.Sprint(i), Problem: fmt.Sprint("p", i), Handler: history.HandlerRef{Namespace: "default", Name: "chat"}, Kind: "opened",
			Payload: []byte(`{"summary":"CRITICAL: disk on web01: full"}`), Created: rig.Now(), State: history.Dead, LastError: "slack answered 404", Ended: rig.Now().Add(-time.Minute),
		})
	}
	testenv.NoError(t, rig.History.Record(t.Context(), history.Batch{Deliveries: list}))
	x.expectOutput("", "handler dead chat", 0, "CRITICAL: disk on web01: full", "slack answered 404", "1m ago", "muster handler replay chat")
	x.expectOutput("", "handler replay chat", 0, "0 messages queued again", "3 dead letters skipped", "--ended")
	x.expectOutput("", "handler replay chat x", 2, "muster handler dead chat")
	x.expectOutput("", "handler replay chat 1 --ended", 0, "1 message queued again")
	x.expectOutput("", "handler replay chat --ended --limit 1 -m mended", 0, "1 message queued again", "1 dead letter more")
	x.expectOutput("", "audit run", 0, "a replay of dead letters of handler default/chat: mended")
}

// TestUserCommands expects the commands to create, change and delete users to read passwords without a
// terminal.
func TestUserCommands(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	x.writeFile("first", "battery staple\n")
	x.writeFile("second", "staple battery\n")
	x.writeFile("empty", "\n")

	out := x.expectOutput("", "auth user create kiosk", 0, "user kiosk (viewer) created, password ")
	made := strings.Fields(out)[5]
	x.expectOutput("", "auth user create ada --role admin --password-file DIR/first", 0, "user ada (admin) created\n")
	x.expectOutput("", "auth user create ada", 4, "exists already")
	x.expectOutput("", "auth user create bob --password-file DIR/empty", 2, "is empty")
	x.expectOutput("", "auth user create bob --role captain", 2, "")
	x.expectOutput("", "auth user create amy --bind web=operator,db=viewer --password-file DIR/first", 0, "user amy (viewer in db, operator in web) created")
	x.expectOutput("", "auth user create sam --bind shared=viewer", 2, "")
	x.expectOutput("", "auth user grant amy --role viewer --bind web=admin", 0, "user amy: new rights: viewer, admin in web\n")
	x.expectOutput("", "auth user grant amy --bind web=captain", 2, "")
	x.expectOutput("", "auth user grant nobody --role viewer", 3, "user \"nobody\" does not exist")
	x.expectOutput("", "auth user create eve --role operator --may-run-commands", 0, "user eve (operator, runs commands) created")
	x.expectOutput("", "auth user delete eve", 0, "deleted")
	x.expectOutput("", "auth user list", 0, "kiosk  viewer")
	x.expectOutput("", "auth user delete kiosc", 3, "did you mean kiosk?")
	x.expectOutput("", "get users", 2, "muster auth user list")

	delete(x.env, "MUSTER_TOKEN")
	x.expectOutput(made, "login URL -u kiosk --password-file -", 0, "as kiosk")
	x.expectOutput("", "auth password", 2, "--old-password-file")
	x.expectOutput("wrong horse", "auth password --old-password-file - --password-file DIR/second", 6, "old password is wrong")
	x.expectOutput(made, "auth password --old-password-file - --password-file DIR/second", 0, "password changed")
	x.expectOutput("", "auth whoami", 0, "kiosk (viewer)")
	x.expectOutput("", "login URL -u ada --password-file DIR/first", 0, "as ada")
	x.expectOutput("", "auth user delete kiosk", 0, "user kiosk deleted, with 1 session and 0 tokens")
	x.expectOutput("", "login URL -u kiosk --password-file DIR/second", 5, "wrong")
	x.expectOutput("", "auth user delete admin", 0, "deleted")
	x.expectOutput("", "auth user delete ada", 4, "last administrator")
}

// TestHandlerCreate creates a handler, and expects its addition to a route only after a successful test
// notification.
func TestHandlerCreate(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer service.Close()
	x.expectOutput("", "handler create pager", 2, "expected exactly one flag with the address to notify, got 0", "--email")
	x.expectOutput("", "handler create pager --slack "+service.URL+" --ntfy x", 2, "got 2")
	status = http.StatusNotFound
	x.expectOutput("", "handler create pager --webhook "+service.URL, 9, "handler/pager created", "handler pager was created, but its test failed, so it was added to no route")
	x.expectOutput("", "get route default", 3)
	status = http.StatusOK
	x.expectOutput("", "handler create pager --webhook "+service.URL, 0, "accepted a test message", "route/default created")
	x.expectOutput("", "handler create chat --slack "+service.URL, 0, "handler/chat created", "route/default updated")
	x.expectOutput("", "get route default -o yaml", 0, "- pager", "- chat")
}
