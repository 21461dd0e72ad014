//go:build linux

package test

import (
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// connectSensuAgent connects a Sensu agent that speaks JSON and answers nothing.
func connectSensuAgent(t *testing.T, address, name string) (say func(kind, check string), alive func()) {
	t.Helper()
	d := ws.Dialer{Header: ws.HandshakeHeaderHTTP(http.Header{"Accept": {"application/json"}, "Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("agent:P@ssw0rd!"))},
		"Sensu-AgentName": {name}, "Sensu-Namespace": {"default"}, "Sensu-Subscriptions": {"web"}})}
	var conn net.Conn
	harness.Until(t, 20*time.Second, "the agent may come", func() (string, bool) {
		c, _, _, err := d.Dial(t.Context(), "ws://"+address+"/")
		if err != nil {
			return err.Error(), false
		}
		conn = c
		return "", true
	})
	t.Cleanup(func() { conn.Close() })
	say = func(kind, check string) {
		t.Helper()
		meta := `"metadata":{"name":"` + name + `","namespace":"default"}`
		if err := wsutil.WriteClientBinary(conn, []byte(kind+"\n"+`{"timestamp":1,"entity":{`+meta+`,"entity_class":"agent","subscriptions":["web"]},"check":`+check+`,`+meta+`}`)); err != nil {
			t.Error(err)
		}
	}
	alive = func() {
		t.Helper()
		say("keepalive", `{"metadata":{"name":"keepalive","namespace":"default"},"interval":20,"timeout":120}`)
	}
	alive()
	return say, alive
}

// What a program gives to a Sensu agent becomes an event of a check that is made of it, with
// its ttl; it is nobody's to end when the server starts again; a name too many is an event.
func TestSensuPassiveChecks(t *testing.T) {
	t.Parallel()
	listen := harness.Port(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("P@ssw0rd!"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Login()
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", password)
	s.Apply("kind: Namespace\nmetadata: {name: default}\nspec: {limits: {passivePerNode: 2}}\n---\nkind: Handler\nmetadata: {name: mail}\nspec: {command: 'true'}\n")
	api := s.Client()
	say, alive := connectSensuAgent(t, listen, "web1")
	say("event", `{"metadata":{"name":"Backup","namespace":"default"},"status":2,"output":"no space","handlers":["mail","nobody"],"interval":1}`)
	say("event", `{"metadata":{"name":"queue","namespace":"default"},"status":0,"output":"fine","ttl":5,"interval":1}`)
	harness.Until(t, 20*time.Second, "the event, and its problem", func() (string, bool) {
		e := eventOf(t, api, "web1", "backup")
		return e.Output, e.Output == "no space" && e.Status == model.Critical && e.Problem != nil
	})
	if out := s.CLI("get", "check", "backup", "-o", "yaml"); !strings.Contains(out, "passive: true") || !strings.Contains(out, "- mail") || !strings.Contains(out, `handler "nobody"`) {
		t.Errorf("%s", out)
	}
	say("event", `{"metadata":{"name":"third","namespace":"default"},"status":0,"output":"one too many","interval":1}`)
	harness.Until(t, 40*time.Second, "the limit is an event, and silence too", func() (string, bool) {
		alive() // only of a node that is there a result is missed
		limits, queue := eventOf(t, api, "web1", "limits"), eventOf(t, api, "web1", "queue")
		return limits.Output + "\n" + queue.Output, strings.Contains(limits.Output, "passivePerNode; refused: third") && queue.Status != model.OK
	})
	s.Kill()
	s.Start()
	say, _ = connectSensuAgent(t, listen, "web1")
	say("event", `{"metadata":{"name":"backup","namespace":"default"},"status":0,"output":"done","interval":1}`)
	harness.Until(t, 20*time.Second, "it goes on, and the problem ends", func() (string, bool) {
		e := eventOf(t, api, "web1", "backup")
		return e.Output, e.Output == "done" && e.Problem == nil
	})
}
