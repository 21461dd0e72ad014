package handler

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// What people read, for every kind of notification: as plain text, and as a mail.
func TestTextsGolden(t *testing.T) {
	out := New(Options{Now: func() time.Time { return noon.Add(2 * time.Hour) }, ProblemLink: "https://wiki.example.org/?p={problem}&n={node}"})
	var texts, mails bytes.Buffer
	for _, kind := range []string{Opened, Reminder, Acknowledged, Closed, Summary, Test} {
		m := notifications()[kind].message(t)
		w := out.words(m.Note, []string{"team", "nobody"})
		fmt.Fprintf(&texts, "=== %s\n%s\n\n%s", kind, w.title, w.text())
		msg, err := out.mail(&model.Email{From: "Muster <muster@example.org>", To: []string{"ann@example.org", "Bob Ünlü <bob@example.org>"}}, m, w)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&mails, "=== %s\n", kind)
		if _, err := msg.WriteTo(&mails); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, filepath.Join("testdata", "texts.txt"), texts.Bytes())
	golden(t, filepath.Join("testdata", "mails.txt"), bytes.ReplaceAll(mails.Bytes(), []byte("\r\n"), []byte("\n")))
	if strings.Contains(mails.String(), "\nBcc:") {
		t.Error("what somebody typed became a header")
	}
}

// Secrets are read whenever they are used; what is not there is said, and may come.
func TestSecrets(t *testing.T) {
	p := newFakeService(t, nil)
	files, env := map[string]string{}, map[string]string{"SLACK_URL": p.URL + "/services/from-env"}
	out := New(Options{
		ReadFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, errors.New("open " + path + ": no such file or directory")
			}
			return []byte(text), nil
		},
		Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	defer out.Close()
	note := notifications()[Opened]
	try := func(url model.Secret) (Receipt, error) {
		return out.Send(t.Context(), &model.HandlerSpec{Slack: &model.Slack{URL: url}}, note.message(t))
	}
	file := model.Secret{FromFile: "/etc/muster/slack"}
	if _, err := try(file); err == nil || asFinal(err) || !strings.Contains(err.Error(), "spec.slack.url: open /etc/muster/slack: no such file") {
		t.Errorf("%v", err)
	}
	files["/etc/muster/slack"] = " \n"
	if _, err := try(file); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("%v", err)
	}
	files["/etc/muster/slack"] = p.URL + "/services/from-file\n"
	for want, s := range map[string]model.Secret{"/services/from-file": file, "/services/from-env": {FromEnv: "SLACK_URL"}} {
		receipt, err := try(s)
		if err != nil {
			t.Fatal(err)
		}
		if c := receive(t, "request", p.got); c.uri != want {
			t.Errorf("%s, want %s", c.uri, want)
		}
		if strings.Contains(receipt.Sent, want) {
			t.Errorf("shown: %s", receipt.Sent)
		}
	}
	delete(env, "SLACK_URL")
	if _, err := try(model.Secret{FromEnv: "SLACK_URL"}); err == nil || !strings.Contains(err.Error(), "environment has no SLACK_URL") {
		t.Errorf("%v", err)
	}
	// A service that repeats the secret in its answer does not bring it into the log.
	p.answer = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "no such webhook: %s/services/from-file", p.URL)
	}
	if receipt, err := try(file); err == nil || strings.Contains(err.Error()+receipt.Answer, "from-file") || !strings.Contains(err.Error(), model.RedactedText) || !asFinal(err) {
		t.Errorf("%v %q", err, receipt.Answer)
	}
}
