package handler

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestAlertmanagerShowsOpenProblems sends a problem to a real Alertmanager, and expects an alert until the
// problem closes. At the end of the problem it removes the alert.
func TestAlertmanagerShowsOpenProblems(t *testing.T) {
	program := testenv.Program(t, "prometheus-alertmanager", "prometheus-alertmanager")
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	testenv.NoError(t, os.WriteFile(config, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600))
	address := testenv.Port(t)
	start := func() (stop func()) {
		var said bytes.Buffer
		cmd := exec.Command(program, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--cluster.listen-address=")
		cmd.Stderr = &said
		testenv.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		testenv.Until(t, "Alertmanager is ready", func() bool {
			resp, err := http.Get("http://" + address + "/-/ready")
			if err == nil {
				resp.Body.Close()
			}
			return err == nil && resp.StatusCode == 200
		})
		return func() {
			cmd.Process.Kill()
			<-ended
			if t.Failed() {
				t.Logf("%s", said.String())
			}
		}
	}
	stop := start()
	defer func() { stop() }()

	type shown struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	alerts := func() (list []shown) {
		resp, err := http.Get("http://" + address + "/api/v2/alerts")
		testenv.NoError(t, err)
		defer resp.Body.Close()
		testenv.NoError(t, json.NewDecoder(resp.Body).Decode(&list))
		return list
	}

	out := newTestSender(t, Options{})
	// The second of the cluster is away: the first one is enough.
	spec := &model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{"http://" + address, "http://127.0.0.1:1"}}}
	opened, closed := *testNotifications()[Opened], *testNotifications()[Closed]
	opened.Opened = time.Now().Add(-time.Minute)
	closed.Opened, closed.Closed = opened.Opened, time.Now()
	closed.Labels = map[string]string{"env": "changed since"}
	if _, err := out.Send(t.Context(), spec, opened.message(t)); err != nil {
		t.Fatal(err)
	}
	list := alerts()
	if len(list) != 1 || list[0].Labels["alertname"] != "disk" || list[0].Labels["env"] != "prod" || list[0].Annotations["problem"] != opened.Problem ||
		!list[0].StartsAt.Equal(opened.Opened.Truncate(time.Millisecond)) || time.Until(list[0].EndsAt) < 50*time.Minute {
		t.Fatalf("%+v", list)
	}

	stop()
	stop = start()
	if list := alerts(); len(list) != 0 {
		t.Fatalf("it remembers: %+v", list)
	}
	testenv.NoError(t, out.ResendProblems(t.Context(), spec, []*Notification{&opened}))
	if list := alerts(); len(list) != 1 {
		t.Fatalf("%+v", list)
	}

	m := closed.message(t)
	m.Opened = func(context.Context) (*Notification, error) { return &opened, nil }
	if _, err := out.Send(t.Context(), spec, m); err != nil {
		t.Fatal(err)
	}
	if list := alerts(); len(list) != 0 {
		t.Fatalf("it did not end: %+v", list)
	}
}

// ntfyServer is a real ntfy server for tests, with one user for publishing and one for reading.
type ntfyServer struct{ url, token, dir string }

// publishedMessage is a message in the JSON form of ntfy's subscribe API.
type publishedMessage struct {
	Event, Topic, Title, Message, Click string
	Priority                            int
	Tags                                []string
	Attachment                          *struct{ Name string }
}

// startNtfy starts a real ntfy server with two users.
func startNtfy(t *testing.T) *ntfyServer {
	t.Helper()
	program := os.Getenv("MUSTER_NTFY")
	if program == "" {
		var err error
		if program, err = exec.LookPath("ntfy"); err != nil {
			testenv.Skip(t, "there is no ntfy", "MUSTER_NTFY=/path/to/ntfy go test ./internal/handler -run TestNtfyShowsTheMessages")
		}
	}
	address := testenv.Port(t)
	s := &ntfyServer{url: "http://" + address, dir: t.TempDir()}
	config := filepath.Join(s.dir, "server.yml")
	text := "listen-http: " + address + "\nbase-url: " + s.url + "\ncache-file: " + s.dir + "/cache.db\nauth-file: " + s.dir + "/auth.db\nauth-default-access: deny-all\n" +
		"attachment-cache-dir: " + s.dir + "/attachments\nvisitor-request-limit-burst: 60\nvisitor-request-limit-replenish: 10m\n"
	testenv.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "NTFY_PASSWORD=of-a-user-of-this-test", "NTFY_CONFIG_FILE=" + config}
		return cmd
	}
	serve := command("serve")
	var log bytes.Buffer
	serve.Stdout, serve.Stderr = &log, &log
	testenv.NoError(t, serve.Start())
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	testenv.Until(t, "ntfy answers", func() bool {
		answer, err := http.Get(s.url + "/v1/health")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	out := ""
	for _, args := range [][]string{{"user", "add", "muster"}, {"user", "add", "phone"}, {"access", "muster", "pages", "write-only"}, {"access", "phone", "pages", "read-only"}, {"token", "add", "muster"}} {
		text, err := command(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ntfy %v: %v\n%s\n%s", args, err, text, log.String())
		}
		out += string(text)
	}
	if s.token = regexp.MustCompile(`tk_[a-z0-9]+`).FindString(out); s.token == "" {
		t.Fatalf("no token in %s", out)
	}
	return s
}

// receivedMessages returns all messages that a test published on the ntfy server, oldest first.
func (s *ntfyServer) receivedMessages(t *testing.T) (list []publishedMessage) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/pages/json?poll=1&since=all", nil)
	testenv.NoError(t, err)
	r.SetBasicAuth("phone", "of-a-user-of-this-test")
	answer, err := http.DefaultClient.Do(r)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %v\n%s", answer.Status, err, text)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var m publishedMessage
		testenv.NoError(t, json.Unmarshal(lines.Bytes(), &m))
		if m.Event == "message" {
			list = append(list, m)
		}
	}
	return list
}

// TestNtfyShowsTheMessages sends messages with quotes and lines to a real ntfy server, and expects each as
// written. Its refusals follow the table of answers.
func TestNtfyShowsTheMessages(t *testing.T) {
	s := startNtfy(t)
	out := newTestSender(t, Options{ProblemLink: "https://wiki.example.org/" + strings.Repeat("x", 1500) + "?p={problem}"})
	spec := func(topic, token string) *model.HandlerSpec {
		return &model.HandlerSpec{Ntfy: &model.Ntfy{URL: s.url, Topic: inlineSecret(topic), Token: inlineSecret(token), Tags: []string{"web"}}, ShowLabels: []string{"team"}}
	}
	notes := testNotifications()
	long := *notes[Opened]
	long.Output = strings.Repeat(strings.Repeat(`"`, 220)+"\n", 50)
	long.Labels = map[string]string{"team": strings.Repeat(`"`, 250)}
	long.Problems = []ListedProblem{{}} // so that the message has more of its output
	notes["long"] = &long
	kinds := []string{Opened, Reminder, Acknowledged, Closed, Summary, Test, "long"}
	for _, kind := range kinds {
		if _, err := out.Send(t.Context(), spec("pages", s.token), notes[kind].message(t)); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	list := s.receivedMessages(t)
	if len(list) != len(kinds) {
		t.Fatalf("%d messages of %d: %+v", len(list), len(kinds), list)
	}
	for i, kind := range kinds {
		w, m := out.messageText(notes[kind], []string{"team"}), list[i]
		text := strings.TrimSpace(w.plainText())
		if kind == "long" {
			text = strings.TrimSpace(m.Message)
			if !strings.HasSuffix(text, "… (cut)") || len(text) < 2000 {
				t.Errorf("%s: %d bytes: %q", kind, len(text), text)
			}
		}
		if priority := ntfyPriority(notes[kind], w); m.Title != w.title || strings.TrimSpace(m.Message) != text || m.Click != w.link || m.Attachment != nil ||
			m.Priority != priority && (m.Priority != 0 || priority != 3) || !slices.Contains(m.Tags, "web") || len(m.Tags) != 2 {
			t.Errorf("%s: %+v\nwant %q priority %d\n%s", kind, m, w.title, priority, text)
		}
	}
	for what, spec := range map[string]*model.HandlerSpec{"a wrong token": spec("pages", "tk_aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "another topic": spec("others", s.token), "a topic that cannot be": spec("no topic", s.token)} {
		if _, err := out.Send(t.Context(), spec, notes[Opened].message(t)); !IsFinal(err) {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
	for range 100 { // the burst that one visitor may send
		_, err := out.Send(t.Context(), spec("pages", s.token), notes[Opened].message(t))
		if err != nil && !IsFinal(err) {
			if !strings.Contains(err.Error(), "429") {
				t.Errorf("%v", err)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("it takes more than it is set to")
}
