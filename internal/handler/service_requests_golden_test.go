package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testNotifications returns one notification of each kind, such as opened, with texts that every format must
// escape.
func testNotifications() map[string]*Notification {
	base := Notification{
		Problem: "01J9ZK3T7Q8V", Node: "web01", Labels: map[string]string{"env": "prod", "team": "ops & <web>", "9rack": "a\"b"}, Check: "disk", Source: Source{Name: "disk"}, Space: "shop",
		DisplayName: "Room on *every* mount", Runbook: "https://wiki.example.org/disk?a=1&b=2",
		Status: "CRITICAL", Worst: "CRITICAL", Severity: "high", Opened: testTime, Executed: testTime.Add(-time.Second),
		Output: "disk 97% full | used=97%\n/var is `full` ```@all``` <!channel> & \"more\" *bold*\x1b[31m\nline 3\n4\n5\n6\n7\n8\n9\n10\n11\n12",
	}
	out := map[string]*Notification{}
	for _, kind := range []string{Opened, Closed, Acknowledged, Reminder, Summary, Test} {
		n := base
		n.Kind = kind
		switch kind {
		case Closed:
			n.Status, n.Closed, n.Output = "OK", testTime.Add(95*time.Minute), "disk 40% full"
		case Acknowledged:
			n.By, n.Note = "ann", "on it\r\nBcc: evil@example.org"
		case Summary:
			n.Count, n.Output = 12, "12 problems within a minute\nweb01/disk\nweb02/disk"
		case Test:
			n.Status, n.Severity, n.Output, n.By = "OK", "information", "ann tries handler x", "ann"
		}
		out[kind] = &n
	}
	return out
}

// message returns a Message with the notification, as the outbox would pass to a Sender.
func (n *Notification) message(t testing.TB) *Message {
	t.Helper()
	payload, err := n.Encode()
	testenv.NoError(t, err)
	return &Message{Key: n.Problem + "/" + n.Kind + "/default/x", Payload: payload, Note: n}
}

// inlineSecret returns a Secret whose text stands in the handler's specification itself.
func inlineSecret(s string) model.Secret { return model.Secret{Text: s} }

// httpServices returns one handler specification for each supported external HTTP service, such as Slack. All
// have the address of the test.
func httpServices(address string) map[string]*model.HandlerSpec {
	return map[string]*model.HandlerSpec{
		"webhook": {Webhook: &model.Webhook{URL: address + "/hook", Secret: inlineSecret("s3cret-key"), Headers: map[string]string{"X-Team": "ops"}}},
		"webhook-template": {Webhook: &model.Webhook{URL: address + "/hook", ContentType: "text/plain",
			Template: "{{ .kind }} {{ json .summary }}{{ range $k, $v := .labels }} {{ $k }}={{ line $v }}{{ end }} {{ cut 20 .output }}{{ .nothing }}\n"}},
		"pagerduty":    {PagerDuty: &model.PagerDuty{RoutingKey: inlineSecret("R0123456789ABCDEF0123456789ABCDE"), URL: address}, ShowLabels: []string{"env", "team"}},
		"opsgenie":     {Opsgenie: &model.Opsgenie{APIKey: inlineSecret("genie-key"), URL: address, Responders: []string{"team:ops", "user:ann@example.org"}, Tags: []string{"web"}}},
		"alertmanager": {Alertmanager: &model.Alertmanager{URLs: []string{address}, Username: "muster", Password: inlineSecret("s3cret"), Labels: map[string]string{"dc": "ams"}}},
		"slack":        {Slack: &model.Slack{URL: inlineSecret(address + "/services/T0/B0/xyz")}, ShowLabels: []string{"team"}},
		"mattermost":   {Mattermost: &model.Mattermost{URL: inlineSecret(address + "/hooks/xyz"), Channel: "ops", Username: "muster"}, ShowLabels: []string{"team"}},
		"teams":        {MSTeams: &model.MSTeams{URL: inlineSecret(address + "/workflows/xyz")}, ShowLabels: []string{"team"}},
		"ntfy":         {Ntfy: &model.Ntfy{Topic: inlineSecret("pages-of-ops"), URL: address, Token: inlineSecret("tk_abc"), Tags: []string{"web"}}, ShowLabels: []string{"team"}},
	}
}

// capturedRequest is a request that a fake service received.
type capturedRequest struct {
	method, uri string
	header      http.Header
	body        []byte
}

// String formats the request for a golden file.
func (c *capturedRequest) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", c.method, c.uri)
	for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "Muster-Signature", "Muster-Timestamp", "User-Agent", "X-Team"} {
		if v := c.header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	b.WriteByte('\n')
	var pretty bytes.Buffer
	if json.Indent(&pretty, c.body, "", "  ") == nil {
		b.Write(pretty.Bytes())
	} else {
		b.Write(c.body)
	}
	b.WriteByte('\n')
	return b.String()
}

// fakeService is a local HTTP server that validates requests by the documentation of a real service.
type fakeService struct {
	*httptest.Server
	got    chan capturedRequest
	answer func(w http.ResponseWriter)
}

// newFakeService starts a local HTTP server that validates each request with the function check.
func newFakeService(t testing.TB, check func(*capturedRequest) error) *fakeService {
	p := &fakeService{got: make(chan capturedRequest, 100), answer: func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := capturedRequest{r.Method, r.RequestURI, r.Header, body}
		if check != nil {
			if err := check(&c); err != nil {
				t.Errorf("%v:\n%s", err, &c)
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		p.got <- c
		p.answer(w)
	}))
	t.Cleanup(p.Close)
	return p
}

// TestRequestsGolden compares the HTTP requests of every kind of handler with golden files. A fake service
// accepts the requests as valid.
func TestRequestsGolden(t *testing.T) {
	for kind := range httpServices("") {
		t.Run(kind, func(t *testing.T) {
			notes := testNotifications()
			name, _, _ := strings.Cut(kind, "-")
			p := newFakeService(t, documentedRules()[name])
			out := newTestSender(t, Options{Now: func() time.Time { return testTime.Add(2 * time.Hour) }, ProblemLink: "https://wiki.example.org/?p={problem}&n={node}"})
			var page bytes.Buffer
			worse := *notes[Reminder]
			worse.PreviousSeverity, worse.SeverityRaised = "warning", true
			again := *notes[Reminder]
			again.AckExpired, again.Incident, again.Replaces = true, again.Problem+".2", again.Problem+".1"
			notes["worse"], notes["unacknowledged"] = &worse, &again
			for _, what := range []string{Opened, Reminder, "worse", "unacknowledged", Acknowledged, Closed, Summary, Test} {
				m := notes[what].message(t)
				m.Opened = func(context.Context) (*Notification, error) { return notes[Opened], nil }
				receipt, err := out.Send(t.Context(), httpServices(p.URL)[kind], m)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				c := receiveFrom(t, "request", p.got)
				fmt.Fprintf(&page, "=== %s\n%s", what, strings.ReplaceAll(c.String(), p.URL, "http://peer"))
				for len(p.got) > 0 { // further requests of the same message
					c = <-p.got
					fmt.Fprintf(&page, "=== %s, then\n%s", what, strings.ReplaceAll(c.String(), p.URL, "http://peer"))
				}
				for _, hidden := range []string{"R0123", "genie-key", "s3cret", "T0/B0", "hooks/xyz", "workflows/xyz", "pages-of-ops", "tk_abc", "bXVzdGVyO"} {
					if strings.Contains(receipt.Sent+receipt.Answer, hidden) {
						t.Errorf("%s: the receipt shows %s:\n%s", what, hidden, receipt.Sent)
					}
				}
			}
			testenv.Golden(t, filepath.Join("testdata", kind+".txt"), page.Bytes())
		})
	}
}

// TestTextsFitLimitsOfServices sends long texts, and expects every text cut to the service's limit. The cut has a
// mark.
func TestTextsFitLimitsOfServices(t *testing.T) {
	long := *testNotifications()[Opened]
	long.Output = strings.Repeat("ünïcode & <b> \"q\" ", 20_000)
	long.Node, long.Source.Name = strings.Repeat("n", 253), strings.Repeat("c", 253)
	long.Labels = map[string]string{"team": strings.Repeat("ö<", 5000)}
	for kind, body := range requestBodies(t, &long, nil) {
		if !strings.HasPrefix(kind, "webhook") && !strings.Contains(body, "(cut)") {
			t.Errorf("%s: nothing says that it was cut:\n%.3000s", kind, body)
		}
	}
}

// requestBodies sends a notification to a fake of each HTTP service, and returns the received bodies by
// service.
func requestBodies(t *testing.T, n *Notification, showLabels []string) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	out := newTestSender(t, Options{})
	for kind := range httpServices("") {
		name, _, _ := strings.Cut(kind, "-")
		p := newFakeService(t, documentedRules()[name])
		spec := httpServices(p.URL)[kind]
		if showLabels != nil {
			spec.ShowLabels = showLabels
		}
		if _, err := out.Send(t.Context(), spec, n.message(t)); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		c := receiveFrom(t, "request", p.got)
		bodies[kind] = string(c.body)
	}
	return bodies
}

// TestLabelsFitLimitsOfServices sends more labels than a service accepts, and expects the message to leave out some.
// The message gives their number.
func TestLabelsFitLimitsOfServices(t *testing.T) {
	many := *testNotifications()[Opened]
	many.Labels = map[string]string{}
	var names []string
	for i := range 300 {
		name := fmt.Sprintf("label-%03d", i)
		many.Labels[name] = strings.Repeat("\"<ö_", 40)
		names = append(names, name)
	}
	for kind, body := range requestBodies(t, &many, names) {
		if strings.HasPrefix(kind, "webhook") || kind == "alertmanager" { // they get all labels
			continue
		}
		complete := slices.ContainsFunc([]string{"more labels", "(cut)", "label-299"}, func(s string) bool { return strings.Contains(body, s) })
		if !complete || !strings.Contains(body, "label-000") {
			t.Errorf("%s: nothing says that it was cut:\n%.3000s", kind, body)
		}
	}
}

// TestHTTPStatusesHaveDocumentedEffects answers messages with each HTTP status, and expects the effect
// documented in docs/deliveries.md. The message is delivered, retried or given up.
func TestHTTPStatusesHaveDocumentedEffects(t *testing.T) {
	note := testNotifications()[Opened]
	for kind := range httpServices("") {
		name, _, _ := strings.Cut(kind, "-")
		p := newFakeService(t, nil)
		out := New(Options{})
		for status := 200; status < 600; status++ {
			if !slices.Contains([]int{200, 202, 204, 302, 400, 401, 403, 404, 408, 410, 413, 422, 425, 429, 500, 502, 503, 504}, status) {
				continue
			}
			p.answer = func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
			}
			_, err := out.Send(t.Context(), httpServices(p.URL)[kind], note.message(t))
			receiveFrom(t, "request", p.got)
			got := taken
			switch {
			case IsFinal(err):
				got = final
			case err != nil:
				if got = retried; FailureOf(err).After != 7*time.Second {
					t.Errorf("%s: %d: Retry-After was not kept: %v", kind, status, err)
				}
			}
			want := outcomeOfStatus(name, status)
			if kind == "opsgenie" && status == 404 {
				want = final // a request that creates an alert gets no 404 for a missing one
			}
			if got != want {
				t.Errorf("%s: %d: %v, want %v (%v)", kind, status, got, want, err)
			}
			if err != nil && name != "alertmanager" && !strings.Contains(err.Error(), fmt.Sprint(status)) {
				t.Errorf("%s: %v does not say %d", kind, err, status)
			}
		}
		out.Close()
	}
}

// TestTextsGolden compares the plain text and the mail of each kind of notification with golden files.
func TestTextsGolden(t *testing.T) {
	out := New(Options{Now: func() time.Time { return testTime.Add(2 * time.Hour) }, ProblemLink: "https://wiki.example.org/?p={problem}&n={node}"})
	var texts, mails bytes.Buffer
	for _, kind := range []string{Opened, Reminder, Acknowledged, Closed, Summary, Test} {
		m := testNotifications()[kind].message(t)
		w := out.messageText(m.Note, []string{"team", "nobody"})
		fmt.Fprintf(&texts, "=== %s\n%s\n\n%s", kind, w.title, w.plainText())
		msg, err := out.composeMail(&model.Email{From: "Muster <muster@example.org>", To: []string{"ann@example.org", "Bob Ünlü <bob@example.org>"}}, m, w)
		testenv.NoError(t, err)
		fmt.Fprintf(&mails, "=== %s\n", kind)
		if _, err := msg.WriteTo(&mails); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Golden(t, filepath.Join("testdata", "texts.txt"), texts.Bytes())
	testenv.Golden(t, filepath.Join("testdata", "mails.txt"), bytes.ReplaceAll(mails.Bytes(), []byte("\r\n"), []byte("\n")))
	if strings.Contains(mails.String(), "\nBcc:") {
		t.Error("what somebody typed became a header")
	}
}

// TestSecretsAreReadForEachMessage changes secrets in files and environment variables, and expects the next
// message to use the new values. The error for a missing secret names its place and is not final.
func TestSecretsAreReadForEachMessage(t *testing.T) {
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
	note := testNotifications()[Opened]
	try := func(url model.Secret) (Receipt, error) {
		return out.Send(t.Context(), &model.HandlerSpec{Slack: &model.Slack{URL: url}}, note.message(t))
	}
	file := model.Secret{FromFile: "/etc/muster/slack"}
	if _, err := try(file); err == nil || IsFinal(err) || !strings.Contains(err.Error(), "spec.slack.url: open /etc/muster/slack: no such file") {
		t.Errorf("%v", err)
	}
	files["/etc/muster/slack"] = " \n"
	if _, err := try(file); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("%v", err)
	}
	files["/etc/muster/slack"] = p.URL + "/services/from-file\n"
	for want, s := range map[string]model.Secret{"/services/from-file": file, "/services/from-env": {FromEnv: "SLACK_URL"}} {
		receipt, err := try(s)
		testenv.NoError(t, err)
		if c := receiveFrom(t, "request", p.got); c.uri != want {
			t.Errorf("%s, want %s", c.uri, want)
		}
		if strings.Contains(receipt.Sent, want) {
			t.Errorf("shown: %s", receipt.Sent)
		}
	}
	delete(env, "SLACK_URL")
	if _, err := try(model.Secret{FromEnv: "SLACK_URL"}); err == nil || !strings.Contains(err.Error(), "environment has no variable SLACK_URL") {
		t.Errorf("%v", err)
	}
	// A service that repeats the secret in its answer does not bring it into the log.
	p.answer = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "no such webhook: %s/services/from-file", p.URL)
	}
	if receipt, err := try(file); err == nil || strings.Contains(err.Error()+receipt.Answer, "from-file") || !strings.Contains(err.Error(), model.RedactedText) || !IsFinal(err) {
		t.Errorf("%v %q", err, receipt.Answer)
	}
}

// answersTable returns the Markdown table of HTTP statuses and their effects, for docs/deliveries.md.
func answersTable() string {
	var b strings.Builder
	b.WriteString("| handler | answer | the message is | because |\n|---|---|---|---|\n")
	for _, r := range answerRules() {
		kind, status := r.kind, fmt.Sprint(r.from)
		if kind == "" {
			kind = "all HTTP services"
		}
		if r.to != r.from {
			status += fmt.Sprintf("–%d", r.to)
		} else if text := http.StatusText(r.from); text != "" {
			status += " " + text
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", kind, status, r.outcome, r.meaning)
	}
	b.WriteString(`| email | 4xx of SMTP | tried again; for one of several recipients: the others get the mail at once | |
| email | 5xx of SMTP | given up; for one of several recipients: the others get the mail, ` + "`muster why`" + ` names that one | |
| tcp, stream | the connection accepted the line | taken | |
| udp | the datagram was sent | taken | |
| command | exit code 0 | taken | |
| command | any other exit | tried again | |
| all | no connection, no answer in time, an untrusted certificate | tried again | |
| all | an unreadable secret, a missing property or handler | tried again | |
`)
	return b.String()
}

// TestDocumentedAnswersAreCurrent compares the table of HTTP answers in docs/deliveries.md with the code.
func TestDocumentedAnswersAreCurrent(t *testing.T) {
	const file, begin, end = "../../docs/deliveries.md", "-update -->\n", "<!-- answers end -->"
	page, err := os.ReadFile(file)
	testenv.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the table", file)
	}
	testenv.Golden(t, file, before+begin+answersTable()+end+after)
}

// TestMailsOfAGroupHaveDifferentIDs composes several mails about one problem, and expects different Message-IDs
// in one mail thread.
func TestMailsOfAGroupHaveDifferentIDs(t *testing.T) {
	out := New(Options{})
	seen := map[string]bool{}
	for _, key := range []string{"p1/opened/default/mail/default/on-call/1", "p2/opened/default/mail/default/on-call/2"} {
		m := testNotifications()[Opened].message(t)
		m.Key = key
		msg, err := out.composeMail(&model.Email{From: "muster@example.org", To: []string{"ann@example.org"}}, m, out.messageText(m.Note, nil))
		testenv.NoError(t, err)
		id := msg.GetMessageID()
		if seen[id] {
			t.Errorf("two mails have the id %s", id)
		}
		seen[id] = true
		if thread := msg.GetGenHeader("References"); len(thread) != 1 || thread[0] != "<01J9ZK3T7Q8V.opened@example.org>" {
			t.Errorf("thread %q", thread)
		}
	}
}

// FuzzDecode sends random notifications to each kind of handler, and expects a JSON body. Mail headers have one line.
func FuzzDecode(f *testing.F) {
	for _, n := range testNotifications() {
		payload, err := n.Encode()
		testenv.NoError(f, err)
		f.Add(payload)
	}
	f.Add([]byte(`{"kind":"closed","opened":"0001-01-01T00:00:00Z","node":"\r\nX: y","output":"\u0000\ud800"}`))
	out := New(Options{ProblemLink: "https://x/{problem}"})
	f.Fuzz(func(t *testing.T, payload []byte) {
		n, err := Decode(payload)
		if err != nil {
			return
		}
		m := &Message{Key: "k", Payload: payload, Note: n}
		w := out.messageText(n, []string{"env"})
		for kind, r := range map[string]*request{
			"pagerduty": newPagerDutyRequest(&model.PagerDuty{}, m, w), "opsgenie": newOpsgenieRequest(&model.Opsgenie{}, m, w), "slack": newSlackRequest(&model.Slack{}, m, w),
			"mattermost": newMattermostRequest(&model.Mattermost{}, m, w), "teams": newTeamsRequest(&model.MSTeams{}, m, w), "ntfy": newNtfyRequest(&model.Ntfy{}, m, w),
			"alertmanager": {body: encodeJSON([]alert{out.newAlert(&model.Alertmanager{}, n, n, w)})},
		} {
			if !json.Valid(r.body) {
				t.Errorf("%s: %q", kind, r.body)
			}
			if r.next != nil && !json.Valid(r.next.body) {
				t.Errorf("%s: next request %q", kind, r.next.body)
			}
		}
		if _, err := out.composeMail(&model.Email{From: "a@b.example", To: []string{"c@d.example"}}, m, w); err != nil {
			t.Errorf("mail: %v", err)
		}
		if text, err := encodeDatagram(m); err == nil && len(text) > maxDatagram {
			t.Errorf("a datagram of %d bytes", len(text))
		}
	})
}
