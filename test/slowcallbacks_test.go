package test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// Strangers who say slowly that a service calls back take no place of people, and are sent away.
func TestSlowCallbackClients(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Args = []string{"--queues", "requests=10"}
	s.Start()
	s.Login()
	s.Apply("kind: Handler\nmetadata: {name: pager}\nspec:\n  " + fmt.Sprintf(pagingServices()[0].handler, "http://127.0.0.1:1", callbackSecret) + "\n")
	ended := make(chan struct{}, 100)
	for range 40 {
		c, err := tls.Dial("tcp", s.Listen, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /callback/default/pager HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ended <- struct{}{}
		}()
	}
	harness.Until(t, 30*time.Second, "all places for callbacks are taken", func() (string, bool) {
		r, err := http.NewRequest(http.MethodPost, "https://"+s.Listen+"/callback/default/pager", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		code, text := sendRequest(t, s, r, "", "")
		return fmt.Sprint(code, " ", text), code == http.StatusServiceUnavailable
	})
	if out := s.CLI("get", "handlers"); !strings.Contains(out, "pager") {
		t.Errorf("asked meanwhile: %s", out)
	}
	for range 40 {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("a slow one is waited for still")
		}
	}
	s.Stop()
}
