package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestContextBackupKeepsEarlierBackups backs up a context file (saved login), and expects all earlier backups to remain.
// The file itself remains, too.
func TestContextBackupKeepsEarlierBackups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "context.yaml")
	c := Context{Server: "https://muster.example.org:8443", Token: "one"}
	keep := func() string {
		t.Helper()
		testenv.NoError(t, SaveContext(path, c))
		aside, err := BackUpContext(path, c)
		testenv.NoError(t, err)
		for _, file := range []string{path, aside} {
			if got, err := LoadContext(file); err != nil || got != c {
				t.Errorf("%s holds %+v, %v", file, got, err)
			}
		}
		return aside
	}
	first := keep()
	if want := path + ".muster.example.org-8443"; first != want {
		t.Errorf("backup file is %s, want %s", first, want)
	}
	if again := keep(); again != first {
		t.Errorf("an equal context got a second backup: %s", again)
	}
	c.Token = "two"
	second := keep()
	if kept, err := LoadContext(first); err != nil || kept.Token != "one" {
		t.Errorf("the first backup holds %+v, %v", kept, err)
	}
	if got := ContextBackups(path, c.Server); !slices.Equal(got, []string{first, second}) {
		t.Errorf("backups are %v", got)
	}
	if info, err := os.Stat(second); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFileNameOfServerIsPortable converts addresses of servers to file names, and expects names without special
// characters.
func TestFileNameOfServerIsPortable(t *testing.T) {
	for server, want := range map[string]string{
		"https://host:8443/": "host-8443", "host": "host", "https://[::1]:8443/a/../b": "---1--8443-a-..-b", "": "earlier", "https://bücher.example": "b-cher.example",
	} {
		if got := serverFileName(server); got != want {
			t.Errorf("%s: %s, want %s", server, got, want)
		}
	}
}

// TestRefusedConnectionHintsAtThePort connects to an address without a port, and expects a hint with the usual port.
func TestRefusedConnectionHintsAtThePort(t *testing.T) {
	refused := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	for server, want := range map[string]string{
		"https://muster.example.org:8443": "systemctl status muster",
		"muster.example.org":              "https://muster.example.org:8443",
		"https://[2001:db8::1]":           "https://[2001:db8::1]:8443",
	} {
		c, err := New(Context{Server: server})
		testenv.NoError(t, err)
		var e *model.Error
		if err := c.c.unreachableError(t.Context(), refused); !errors.As(err, &e) || e.Class != model.Unavailable || !strings.Contains(e.Hint, want) || !strings.HasSuffix(e.Message, "connection refused") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// fixedAnswerTransport is an http.RoundTripper that gives the same answer to every request
type fixedAnswerTransport http.Response

// RoundTrip returns the fixed answer instead of a server's.
func (p *fixedAnswerTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return (*http.Response)(p), nil
}

// FuzzAnswer decodes random bytes as an API answer and expects a value, or an error with a message
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", []byte(`{"items":[{"node":"web01","check":"disk","status":"CRITICAL"}],"next":"AA"}`))
	f.Add(200, "text/event-stream", []byte(": hello\n\ndata: {\"node\":\"web01\",\"status\":\"OK\"}\n\ndata: {\n"))
	f.Add(200, "text/event-stream", []byte("data: {\"type\":\"output\",\"node\":\"web01\",\"output\":\"up\"}\n\ndata: {\"type\":\"summary\",\"summary\":{\"nodes\":1}}\n\n"))
	f.Add(428, "application/problem+json", []byte(`{"title":"x","status":428,"detail":"lands on 300 nodes","hint":"--yes","errors":[{"location":"a","message":"b"}]}`))
	f.Add(502, "text/html", []byte(`<html>`))
	f.Add(200, "application/json", []byte(`{"items":7}`))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		if status < 200 || status > 599 {
			return // net/http rejects such a status
		}
		c, err := New(Context{Server: "https://muster.example:8443"})
		testenv.NoError(t, err)
		answer := &fixedAnswerTransport{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {contentType}}}
		c.c.http.Transport = answer
		for name, call := range map[string]func() error{
			"events": func() error { _, err := c.Events.List(context.Background(), v1.EventFilter{}); return err },
			"status": func() error { _, err := c.Status(context.Background(), ""); return err },
			"run": func() error {
				return c.Run(context.Background(), v1.RunRequest{}, func(v1.RunLine) error { return nil })
			},
			"watch": func() error {
				return c.Events.Watch(context.Background(), v1.EventFilter{}, func() error { return nil }, func(v1.Event) error { return nil })
			},
		} {
			answer.Body = io.NopCloser(bytes.NewReader(body))
			err := call()
			if err != nil && err.Error() == "" {
				t.Errorf("%s: the error has no message", name)
			}
			if err == nil && (status >= 300 || name == "watch") {
				t.Errorf("%s: no error after status %d", name, status)
			}
		}
	})
}

// FuzzContext parses random bytes as a context file (saved login), and expects accepted files to survive
// rewriting unchanged. Only accepted contexts count.
func FuzzContext(f *testing.F) {
	f.Add([]byte("server: https://muster.example:8443\nca: |\n  -----BEGIN CERTIFICATE-----\ntoken: x\nuser: admin\nnamespace: default\nadmin: 127.0.0.1:9443\ndata: /var/lib/muster\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("- server"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeContext(data)
		if err != nil {
			return
		}
		written, err := yaml.Marshal(got)
		testenv.NoError(t, err)
		if again, err := decodeContext(written); err != nil || again != got {
			t.Fatalf("%+v is written as %q and read as %+v, %v", got, written, again, err)
		}
	})
}
