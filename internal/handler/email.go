package handler

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// mailSubject is the longest subject of a mail, in bytes.
const mailSubject = 200

// sendMessageAsMail sends a message as a mail, over a separate SMTP connection. If the server refuses one of several recipients,
// each recipient gets a separate mail.
func (o *Sender) sendMessageAsMail(ctx context.Context, e *model.Email, m *Message, w *messageText) (Receipt, error) {
	all := append(slices.Clone(e.To), e.CC...)
	some := o.mailed.progressOf(m.Key)
	if some == nil {
		receipt, err := o.sendMail(ctx, e, m, w)
		if len(all) == 1 || !refusesRecipients(err) {
			return receipt, err
		}
		some = &mailProgress{answers: []string{err.Error()}, sent: receipt.Sent, ended: map[string]error{}}
	}
	var later []error
	for _, to := range all {
		if _, ended := some.ended[to]; ended {
			continue
		}
		one := *e
		one.To, one.CC = []string{to}, nil
		r, err := o.sendMail(ctx, &one, m, w)
		if some.answers = append(some.answers, to+": "+cmp.Or(r.Answer, fmt.Sprint(err))); err == nil || IsFinal(err) {
			some.ended[to] = err
		} else {
			later = append(later, fmt.Errorf("%s: %w", to, err))
		}
	}
	receipt := Receipt{Sent: some.sent, Answer: strings.Join(some.answers, "\n")}
	refused := some.refused(all)
	if len(later) > 0 {
		o.mailed.storeProgress(m.Key, some)
		return receipt, fmt.Errorf("some recipients did not get the mail: %v", errors.Join(append(later, refused...)...)) // %v: a final refusal of one recipient must not be final for all
	}
	if o.mailed.storeProgress(m.Key, nil); len(refused) == len(some.ended) {
		return receipt, FinalError(errors.Join(refused...))
	}
	receipt.Refused = errors.Join(refused...)
	return receipt, nil
}

// refusesRecipients reports whether a mail client's error means that the mail server refused recipients.
func refusesRecipients(err error) bool {
	var refused *gomail.SendError
	return errors.As(err, &refused) && refused.Reason == gomail.ErrSMTPRcptTo
}

// sendMail sends a mail to all its recipients, except recipients that received the mail in an earlier attempt.
func (o *Sender) sendMail(ctx context.Context, e *model.Email, m *Message, w *messageText) (Receipt, error) {
	msg, err := o.composeMail(e, m, w)
	if err != nil {
		return Receipt{}, FinalError(fmt.Errorf("compose the mail: %w", err))
	}
	var text bytes.Buffer
	if _, err := msg.WriteTo(&text); err != nil {
		return Receipt{}, FinalError(fmt.Errorf("compose the mail: %w", err))
	}
	receipt := Receipt{Sent: fmt.Sprintf("smtp %s\n%s", e.Server, text.Bytes())}
	conns := mailConns{dialer: o.opts.Dialer}
	defer conns.close()
	defer context.AfterFunc(ctx, conns.close)()
	client, err := mailClient(ctx, e, &conns)
	if err != nil {
		return receipt, fmt.Errorf("compose the mail: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, msg)
	switch {
	case msg.IsDelivered(): // an error after the server accepted the mail is no reason to send the mail again
		receipt.Answer = strings.TrimSpace(msg.ServerResponse())
		return receipt, nil
	case isPermanent(err):
		return receipt, FinalError(fmt.Errorf("send the mail by %s: %w", e.Server, err))
	}
	return receipt, fmt.Errorf("send the mail by %s: %w", e.Server, err)
}

// isPermanent reports whether an error of a mail server is permanent (5xx).
func isPermanent(err error) bool {
	var refused *gomail.SendError
	var reply *textproto.Error
	return errors.As(err, &refused) && refused.ErrorCode() >= 500 || errors.As(err, &reply) && reply.Code >= 500
}

// mailConns records the network connections of a mail client, so that all are closed even after errors. The
// client leaves them open after a failed login.
type mailConns struct {
	dialer *net.Dialer
	tls    *tls.Config // of connections that begin with TLS; nil: they begin without
	mu     sync.Mutex
	list   []net.Conn
}

// dial opens a connection for the mail client and records the connection.
func (c *mailConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.dialer.DialContext
	if c.tls != nil {
		dial = (&tls.Dialer{NetDialer: c.dialer, Config: c.tls}).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.list = append(c.list, conn)
		c.mu.Unlock()
	}
	return conn, err
}

// close closes all connections that the mail client has opened.
func (c *mailConns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.list {
		conn.Close()
	}
}

// tlsLogins are the logins of a connection that begins with TLS, best first. go-mail discovers only those that need no TLS,
// because it did not open the connection.
var tlsLogins = [...]gomail.SMTPAuthType{
	gomail.SMTPAuthSCRAMSHA256PLUS, gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1PLUS, gomail.SMTPAuthSCRAMSHA1,
	gomail.SMTPAuthCramMD5, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin,
}

// mailClient returns an SMTP client for the handler's server, with TLS and login.
func mailClient(ctx context.Context, e *model.Email, c *mailConns) (*gomail.Client, error) {
	host, port, err := net.SplitHostPort(e.Server)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	left := DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Millisecond, time.Until(deadline))
	}
	config, err := trustConfig(e.CA)
	if err != nil {
		return nil, err
	}
	options := []gomail.Option{gomail.WithPort(number), gomail.WithTimeout(left), gomail.WithoutNoop(), gomail.WithDialContextFunc(c.dial)}
	if config != nil {
		config.ServerName = host
		options = append(options, gomail.WithTLSConfig(config))
	}
	login := gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover)
	switch e.Security {
	case "tls":
		c.tls = cmp.Or(config, &tls.Config{ServerName: host})
		options = append(options, gomail.WithSSL())
		login = gomail.WithOpportunisticSMTPAuth(tlsLogins[:]...)
	case "none":
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if e.Username != "" {
		options = append(options, login, gomail.WithUsername(e.Username), gomail.WithPassword(e.Password.Text))
	}
	return gomail.NewClient(host, options...)
}

// composeMail returns the mail of a message, as a reply to the first mail about the same problem. A repeated attempt
// has the same id.
func (o *Sender) composeMail(e *model.Email, m *Message, w *messageText) (*gomail.Msg, error) {
	n := m.Note
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithBoundary("muster-"+cleanMessageID(n.Problem+n.Kind)))
	from, err := mail.ParseAddress(e.From)
	if err != nil {
		return nil, fmt.Errorf("sender address (from) %q: %w", e.From, err)
	}
	msg.FromMailAddress(from)
	for _, to := range []struct {
		list []string
		add  func(...string) error
	}{{e.To, msg.To}, {e.CC, msg.Cc}} {
		if len(to.list) > 0 {
			if err := to.add(to.list...); err != nil {
				return nil, err
			}
		}
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	first := cleanMessageID(n.Problem) + ".opened@" + domain
	id := cleanMessageID(n.Problem) + "." + cleanMessageID(n.Kind) + "@" + domain
	routed := strings.Count(m.Key, "/") > 3 // a route sends several mails about a group under the id of one problem
	if n.Kind == Reminder || n.Kind == Acknowledged || routed {
		id = cleanMessageID(n.Problem) + "." + cleanMessageID(m.Key) + "@" + domain
	}
	msg.SetMessageIDWithValue(id)
	if id != first && n.Kind != Test && (n.Kind != Summary || routed) {
		msg.SetGenHeader(gomail.HeaderInReplyTo, "<"+first+">")
		msg.SetGenHeader(gomail.HeaderReferences, "<"+first+">")
	}
	msg.SetDateWithValue(o.opts.Now().UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // prevents automatic replies (RFC 3834)
	msg.SetGenHeader("X-Muster-Problem", n.Problem)
	msg.Subject(body.Cut(w.title, mailSubject))
	msg.SetBodyString(gomail.TypeTextPlain, w.title+"\n\n"+w.plainText())
	msg.AddAlternativeString(gomail.TypeTextHTML, w.htmlText())
	return msg, nil
}

// htmlText formats the message as simple HTML, which all mail programs show the same.
func (w *messageText) htmlText() string {
	var b strings.Builder
	esc := html.EscapeString
	fmt.Fprintf(&b, "<!doctype html>\n<html><body style=\"font-family:sans-serif\">\n<p style=\"border-left:6px solid %s;padding-left:10px;font-size:1.2em\"><b>%s</b></p>\n<table>\n", w.color.hex(), esc(w.title))
	for _, f := range w.facts {
		fmt.Fprintf(&b, "<tr><td style=\"padding-right:1em\">%s</td><td>%s</td></tr>\n", esc(f[0]), esc(f[1]))
	}
	b.WriteString("</table>\n")
	for _, text := range w.fixedWidthTexts() {
		fmt.Fprintf(&b, "<pre>%s</pre>\n", esc(text))
	}
	if w.link != "" {
		fmt.Fprintf(&b, "<p><a href=\"%s\">the problem in Muster</a></p>\n", esc(w.link))
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

// cleanMessageID replaces characters that are not allowed in a mail's Message-ID. It replaces all characters except
// letters, digits, - and _.
func cleanMessageID(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// mailProgress says which recipients of one mail have received or permanently refused the mail so far. Another
// attempt then sends the mail only to recipients that did not get it.
type mailProgress struct {
	sent    string
	answers []string
	ended   map[string]error // by recipient; nil: the recipient has the mail; else the permanent refusal
}

// refused returns the recipients that the mail server refused permanently, with the errors.
func (m *mailProgress) refused(all []string) (list []error) {
	listed := map[string]bool{}
	for _, to := range all {
		if err := m.ended[to]; err != nil && !listed[to] {
			listed[to] = true
			list = append(list, fmt.Errorf("%s: %w", to, err))
		}
	}
	return list
}

// mailRetries remembers each mail's delivered recipients between attempts, so that no recipient gets a mail
// twice. The map's key is the message key. After a restart, or with more than maxMails mails, progress is lost:
// then all recipients get the mail again, with the same id, by which mail programs drop duplicates.
type mailRetries struct {
	mu sync.Mutex
	by map[string]*mailProgress
}

const maxMails = 1000

// progressOf returns which recipients got a mail in earlier attempts, or nil before the first attempt.
func (m *mailRetries) progressOf(key string) *mailProgress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[key]
}

// storeProgress stores which recipients have received a mail, for the next attempt. A nil p deletes the stored
// progress.
func (m *mailRetries) storeProgress(key string, one *mailProgress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one == nil {
		delete(m.by, key)
		return
	}
	for other := range m.by {
		if m.by[key] != nil || len(m.by) < maxMails {
			break
		}
		delete(m.by, other)
	}
	if m.by == nil {
		m.by = map[string]*mailProgress{}
	}
	m.by[key] = one
}
