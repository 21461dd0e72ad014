package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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

// Failure is the error of a failed attempt to send a message, and says how to try again. Such a detail is the
// pause that the service asks for. After any other error the message is sent again.
type Failure struct {
	Err   error
	Final bool // another attempt would fail in the same way
	// Asset means that a command or JavaScript did not start because an Asset that it names is missing; the Asset may
	// arrive later.
	Asset bool
	After time.Duration // value of Retry-After in the answer; zero: none
}

// Error returns the text of the error.
func (e *Failure) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Failure) Unwrap() error { return e.Err }

// FinalError wraps an error after which no further attempt to send the message is made.
func FinalError(err error) error { return &Failure{Err: err, Final: true} }

// IsFinal reports whether no further attempt to send the message is useful after an error.
func IsFinal(err error) bool { return FailureOf(err).Final }

// FailureOf returns the Failure that an error wraps, or the zero Failure.
func FailureOf(err error) Failure {
	if failed := (*Failure)(nil); errors.As(err, &failed) {
		return *failed
	}
	return Failure{}
}

// Message is one notification to one handler, with the same idempotency key in every attempt to send.
type Message struct {
	Key     string // idempotency key: the same in every attempt
	Payload []byte // encoded notification (JSON)
	Note    *Notification
	// Secrets lists the secrets that the mutator used, which may be in the message.
	Secrets []string
	// Opened returns the notification of the problem's opening that this handler got, or nil. A nil function: there was
	// no opening.
	Opened func(context.Context) (*Notification, error)

	hider *hide.Redactor // hides the secrets of this attempt; nil: there are none
}

// Receipt has the request and the service's answer as text for people, with secrets redacted
type Receipt struct {
	Sent   string
	Answer string
	// Refused names the recipients that refused the message while others accepted it; nil: none refused.
	Refused error
}

// Options has the settings of a Sender, and the functions that the Sender calls. The zero value uses the
// environment of the process.
type Options struct {
	Guard *guard.Guard // ends commands when the server ends; nil: commands survive a kill -9 of the server
	// ProblemLink is the address of a page about a problem, with the placeholders {problem}, {node}, {check} and
	// {namespace}; empty: messages have no link.
	ProblemLink string
	Now         func() time.Time
	ReadFile    func(path string) ([]byte, error)
	Getenv      func(name string) (string, bool)
	// Secret returns the value of the Secret NAMESPACE/NAME. Its error is shown to people and contains no part of the
	// value. Nil: there are no Secrets.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	// Assets returns the directories of the Assets with these names (NAMESPACE/NAME), which stay until done is called.
	// Its error is shown to people. Nil: there are no Assets.
	Assets func(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error)
	Dialer *net.Dialer // opens connections to services; nil: to any address
	Logger *slog.Logger
}

// Sender sends messages to handlers of every kind. It keeps HTTP clients and connections of streams open until Close.
// It is safe for concurrent use.
type Sender struct {
	opts    Options
	mu      sync.Mutex
	clients map[string]*http.Client // by the CA file and the time of its last change
	streams map[streamKey]*streamConn
	mailed  mailRetries
}

// New returns a sender of messages to handlers.
func New(o Options) *Sender {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReadFile == nil {
		o.ReadFile = readSecretFile
	}
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	if o.Dialer == nil {
		o.Dialer = &net.Dialer{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sender{opts: o, clients: map[string]*http.Client{}, streams: map[streamKey]*streamConn{}}
}

// Close closes the permanent connections to stream handlers.
func (o *Sender) Close() {
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

// DefaultTimeout is the time-out of an attempt if the handler has none.
const DefaultTimeout = 30 * time.Second

// Send makes one attempt to send a message to a handler and returns the receipt. The caller has expanded the
// variables of spec; Send reads the secrets.
func (o *Sender) Send(ctx context.Context, spec *model.HandlerSpec, m *Message) (Receipt, error) {
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
	one.hider = hide.New(slices.Concat(hidden, m.Secrets))
	receipt, err := o.send(ctx, spec, &one, timeout)
	receipt.Sent, receipt.Answer, receipt.Refused = redactText(receipt.Sent, one.hider), redactText(receipt.Answer, one.hider), redactError(receipt.Refused, one.hider)
	return receipt, redactError(err, one.hider)
}

// send sends a message in the way of its handler's kind, such as mail or command.
func (o *Sender) send(ctx context.Context, spec *model.HandlerSpec, m *Message, timeout time.Duration) (Receipt, error) {
	w := o.messageText(m.Note, spec.ShowLabels)
	if m.Note.Kind == Deregistered && spec.ProblemService() != "" {
		return Receipt{}, FinalError(errors.New("this service would keep an incident open after the node's deletion: name another handler in lifecycle.handlers"))
	}
	switch {
	case spec.Command != nil:
		return o.runHandlerCommand(ctx, spec, m, timeout)
	case spec.Webhook != nil:
		return o.postWebhook(ctx, spec.Webhook, m)
	case spec.PagerDuty != nil:
		return o.postRequests(ctx, m, newPagerDutyRequest(spec.PagerDuty, m, w))
	case spec.Opsgenie != nil:
		return o.postRequests(ctx, m, newOpsgenieRequest(spec.Opsgenie, m, w))
	case spec.Alertmanager != nil:
		return o.sendToAlertmanager(ctx, spec.Alertmanager, m, w)
	case spec.Slack != nil:
		return o.postRequests(ctx, m, newSlackRequest(spec.Slack, m, w))
	case spec.Mattermost != nil:
		return o.postRequests(ctx, m, newMattermostRequest(spec.Mattermost, m, w))
	case spec.MSTeams != nil:
		return o.postRequests(ctx, m, newTeamsRequest(spec.MSTeams, m, w))
	case spec.Ntfy != nil:
		return o.postRequests(ctx, m, newNtfyRequest(spec.Ntfy, m, w))
	case spec.Email != nil:
		return o.sendMessageAsMail(ctx, spec.Email, m, w)
	case spec.TCP != nil:
		return o.sendByTCP(ctx, spec.TCP, m)
	case spec.UDP != nil:
		return o.sendByUDP(ctx, spec.UDP, m)
	case spec.Stream != nil:
		return o.writeToStream(ctx, spec.Stream, m)
	}
	return Receipt{}, FinalError(errors.New("the handler has no service that this server supports"))
}

// maxSecret is the largest file with a secret, in bytes.
const maxSecret = 64 << 10

// readSecretFile reads a secret from a file, up to a maximum length.
func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSecret))
}

// secret returns the value of a secret from a Secret resource, an environment variable or a file. A missing secret may
// exist later, so the error is not final.
func (o *Sender) secret(ctx context.Context, s model.Secret) (string, error) {
	if s.SecretName != "" {
		namespace, name, _ := strings.Cut(s.SecretName, "/")
		if o.opts.Secret == nil {
			return "", fmt.Errorf("read secret %s: this handler cannot use Secret resources", s.SecretName)
		}
		value, err := o.opts.Secret(ctx, namespace, name)
		if err != nil {
			return "", fmt.Errorf("read secret %s: %w", s.SecretName, err)
		}
		return value, nil
	}
	if s.FromEnv != "" {
		value, ok := o.opts.Getenv(s.FromEnv)
		if !ok || value == "" {
			return "", fmt.Errorf("the server's environment has no variable %s: set it where the service is declared and restart the server, or keep the secret in a file (fromFile)", s.FromEnv)
		}
		return value, nil
	}
	data, err := o.opts.ReadFile(s.FromFile)
	value := strings.TrimSpace(string(data))
	if err == nil && value == "" {
		err = fmt.Errorf("secret file %s is empty", s.FromFile)
	}
	return value, err
}

// secretReader returns a function that reads the values of secrets.
func (o *Sender) secretReader(ctx context.Context) func(model.Secret) (string, error) {
	return func(s model.Secret) (string, error) { return o.secret(ctx, s) }
}

// redactText redacts secrets in a text.
func redactText(text string, h *hide.Redactor) string { return string(h.Redact([]byte(text))) }

// redactError redacts secrets in the text of an error, and keeps its type Failure.
func redactError(err error, h *hide.Redactor) error {
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
