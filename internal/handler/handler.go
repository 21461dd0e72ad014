package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// Failure is the error of an attempt, where more is known of the next one. Any other error: the message is sent again.
type Failure struct {
	Err   error
	Final bool // another attempt would fail alike
	// Asset means that a command or JavaScript did not start because an Asset that it names is absent and may arrive.
	Asset bool
	After time.Duration // the receiver's Retry-After; zero: none
}

func (e *Failure) Error() string { return e.Err.Error() }
func (e *Failure) Unwrap() error { return e.Err }

// FinalError returns err as one after which no attempt follows.
func FinalError(err error) error { return &Failure{Err: err, Final: true} }

// IsFinal reports whether another attempt would end alike.
func IsFinal(err error) bool { return FailureOf(err).Final }

// FailureOf returns the failure in an error; the zero value where there is none.
func FailureOf(err error) Failure {
	if failed := (*Failure)(nil); errors.As(err, &failed) {
		return *failed
	}
	return Failure{}
}

// Message is one notification on its way to one handler.
type Message struct {
	Key     string // idempotency key: the same on every attempt
	Payload []byte // the notification as JSON
	Note    *Notification
	// Hidden lists the secrets of its mutator, which the message may have.
	Hidden []string
	// Opened returns the notification of the problem's opening to this handler, or nil. A nil Opened: there is none.
	Opened func(context.Context) (*Notification, error)

	hider *hide.Hider // hides all secrets of this attempt; nil: there are none
}

// Receipt holds the request and the answer for people; secrets are hidden.
type Receipt struct {
	Sent   string
	Answer string
	// Refused names the recipients that the receiver refused although others got the message; nil: none.
	Refused error
}

// Options holds the dependencies of an Out. The zero value uses the process's environment.
type Options struct {
	Guard *guard.Guard // ends commands with the server; nil: they outlive a kill -9
	// ProblemLink is the address of a page about a problem, with {problem}, {node}, {check} and {namespace} in it; empty:
	// messages have no link.
	ProblemLink string
	Now         func() time.Time
	ReadFile    func(path string) ([]byte, error)
	Getenv      func(name string) (string, bool)
	// Secret returns the value of a Secret, NAMESPACE/NAME; its error is for people and shows no part of the value. A nil
	// Secret: there are no Secrets.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	// Assets returns the directories of Assets, NAMESPACE/NAME, which stay until done is called. The error is for people.
	// Nil: there are none.
	Assets func(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error)
	Logger *slog.Logger
}

// Out sends messages. It keeps connections of HTTP clients and streams open; Close closes
// them. Safe for concurrent use.
type Out struct {
	opts    Options
	mu      sync.Mutex
	clients map[string]*http.Client // keyed by CA file and its time of change
	streams map[streamKey]*streamConn
	mailed  mailRetries
}

// New makes an Out.
func New(o Options) *Out {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReadFile == nil {
		o.ReadFile = readSecretFile
	}
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Out{opts: o, clients: map[string]*http.Client{}, streams: map[streamKey]*streamConn{}}
}

// Close closes the connections that were kept.
func (o *Out) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.clients {
		c.CloseIdleConnections()
	}
	for key, c := range o.streams {
		c.closeConn(c.conn.Load())
		delete(o.streams, key)
	}
}

// DefaultTimeout is the time-out of an attempt of a handler without one of its own.
const DefaultTimeout = 30 * time.Second

// Send makes one attempt. spec's variables are expanded; its secrets are read here.
func (o *Out) Send(ctx context.Context, spec *model.HandlerSpec, m *Message) (Receipt, error) {
	spec, hidden, err := spec.Reveal(o.secretReader(ctx))
	if err != nil {
		return Receipt{}, err
	}
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	one := *m
	one.hider = hide.New(slices.Concat(hidden, m.Hidden))
	receipt, err := o.send(ctx, spec, &one, timeout)
	receipt.Sent, receipt.Answer, receipt.Refused = redactText(receipt.Sent, one.hider), redactText(receipt.Answer, one.hider), redactError(receipt.Refused, one.hider)
	return receipt, redactError(err, one.hider)
}

func (o *Out) send(ctx context.Context, spec *model.HandlerSpec, m *Message, timeout time.Duration) (Receipt, error) {
	w := o.messageText(m.Note, spec.ShowLabels)
	if m.Note.Kind == Deregistered && spec.ProblemService() != "" {
		return Receipt{}, FinalError(errors.New("this service would keep the end of a node open as an incident: name another handler in lifecycle.handlers"))
	}
	switch {
	case spec.Command != nil:
		return o.command(ctx, spec, m, timeout)
	case spec.Webhook != nil:
		return o.webhook(ctx, spec.Webhook, m)
	case spec.PagerDuty != nil:
		return o.postRequests(ctx, m, pagerduty(spec.PagerDuty, m, w))
	case spec.Opsgenie != nil:
		return o.postRequests(ctx, m, opsgenie(spec.Opsgenie, m, w))
	case spec.Alertmanager != nil:
		return o.alertmanager(ctx, spec.Alertmanager, m, w)
	case spec.Slack != nil:
		return o.postRequests(ctx, m, slack(spec.Slack, m, w))
	case spec.Mattermost != nil:
		return o.postRequests(ctx, m, mattermost(spec.Mattermost, m, w))
	case spec.MSTeams != nil:
		return o.postRequests(ctx, m, teams(spec.MSTeams, m, w))
	case spec.Ntfy != nil:
		return o.postRequests(ctx, m, ntfy(spec.Ntfy, m, w))
	case spec.Email != nil:
		return o.email(ctx, spec.Email, m, w)
	case spec.TCP != nil:
		return o.tcp(ctx, spec.TCP, m)
	case spec.UDP != nil:
		return o.udp(ctx, spec.UDP, m)
	case spec.Stream != nil:
		return o.stream(ctx, spec.Stream, m)
	}
	return Receipt{}, FinalError(errors.New("the handler has no service that this server supports"))
}

// maxSecret bounds a file with a secret.
const maxSecret = 64 << 10

func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSecret))
}

// secret reads a named secret, an environment variable or a file. A missing secret may exist later, so the error is not final.
func (o *Out) secret(ctx context.Context, s model.Secret) (string, error) {
	if s.Named != "" {
		namespace, name, _ := strings.Cut(s.Named, "/")
		if o.opts.Secret == nil {
			return "", fmt.Errorf("read secret %s: this server has no Secrets", s.Named)
		}
		value, err := o.opts.Secret(ctx, namespace, name)
		if err != nil {
			return "", fmt.Errorf("read secret %s: %w", s.Named, err)
		}
		return value, nil
	}
	if s.FromEnv != "" {
		value, ok := o.opts.Getenv(s.FromEnv)
		if !ok || value == "" {
			return "", fmt.Errorf("the server's environment has no %s: set it where the service is declared and restart the server, or keep the secret in a file (fromFile)", s.FromEnv)
		}
		return value, nil
	}
	data, err := o.opts.ReadFile(s.FromFile)
	value := strings.TrimSpace(string(data))
	if err == nil && value == "" {
		err = fmt.Errorf("%s is empty", s.FromFile)
	}
	return value, err
}

func (o *Out) secretReader(ctx context.Context) func(model.Secret) (string, error) {
	return func(s model.Secret) (string, error) { return o.secret(ctx, s) }
}

func redactText(text string, h *hide.Hider) string { return string(h.Redact([]byte(text))) }

// redactError keeps the kind of the error.
func redactError(err error, h *hide.Hider) error {
	if err == nil {
		return nil
	}
	text := redactText(err.Error(), h)
	if text == err.Error() {
		return err
	}
	if failed := FailureOf(err); failed.Err != nil {
		failed.Err = errors.New(text)
		return &failed
	}
	return errors.New(text)
}
