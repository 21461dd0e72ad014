package handler

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// exim is a real Exim mail server for tests, with STARTTLS on one port and TLS on another. It accepts mail from
// the user muster.
type exim struct {
	starttls, tls string // addresses
	ca, dir       string
}

const eximConfig = `
primary_hostname = localhost
spool_directory = DIR/spool
log_file_path = DIR/%slog
pid_file_path = DIR/pid
exim_user = USER
exim_group = GROUP
never_users =
local_interfaces = 127.0.0.1
daemon_smtp_ports = PORT1 : PORT2
tls_on_connect_ports = PORT2
tls_advertise_hosts = *
tls_certificate = DIR/cert.pem
tls_privatekey = DIR/key.pem
rfc1413_query_timeout = 0s
host_lookup =
dns_dnssec_ok = 0
keep_environment =
acl_smtp_rcpt = rcpt
begin acl
rcpt:
  deny  message = log in first
        !authenticated = *
  deny  message = nobody of that name
        recipients = refused@example.org
  defer message = come back later
        recipients = later@example.org
  accept
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  directory = DIR/box
  create_directory
  maildir_format
  user = USER
  group = GROUP
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_advertise_condition = ${if def:tls_in_cipher}
  server_condition = ${if and{{eq{$auth2}{muster}}{eq{$auth3}{s3cret}}}}
  server_set_id = $auth2
`

// startExim starts a real Exim mail server in a temporary folder.
func startExim(t *testing.T) *exim {
	t.Helper()
	program := testenv.Program(t, "exim4", "exim4-daemon-light", "/usr/sbin")
	dir, err := os.MkdirTemp("", "exim")
	testenv.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	me, err := user.Current()
	testenv.NoError(t, err)
	if me.Uid == "0" { // exim delivers no mail as root
		if me, err = user.Lookup("Debian-exim"); err != nil {
			testenv.Skip(t, "there is no user for the mail server", "sudo apt-get install exim4-daemon-light")
		}
	}
	port := func() string { return strings.TrimPrefix(testenv.Port(t), "127.0.0.1:") }
	ports := [2]string{port(), port()}
	for ports[1] == ports[0] {
		ports[1] = port()
	}
	writeCertificate(t, dir)
	conf := strings.NewReplacer("DIR", dir, "USER", me.Uid, "GROUP", me.Gid, "PORT1", ports[0], "PORT2", ports[1]).Replace(eximConfig)
	testenv.NoError(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644))
	if os.Geteuid() == 0 {
		uid, _ := strconv.Atoi(me.Uid)
		gid, _ := strconv.Atoi(me.Gid)
		for _, path := range []string{dir, filepath.Join(dir, "key.pem")} {
			testenv.NoError(t, os.Chown(path, uid, gid))
		}
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "-C", filepath.Join(dir, "conf"), "-bdf")
	cmd.Stdout, cmd.Stderr = &said, &said
	testenv.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "mainlog"))
			reject, _ := os.ReadFile(filepath.Join(dir, "paniclog"))
			t.Logf("exim: %s\n%s\n%s", said.String(), log, reject)
		}
	})
	e := &exim{"127.0.0.1:" + ports[0], "127.0.0.1:" + ports[1], filepath.Join(dir, "cert.pem"), dir}
	testenv.Until(t, "the mail server listens", func() bool {
		conn, err := net.Dial("tcp", e.starttls)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return e
}

// writeCertificate writes a self-signed certificate for 127.0.0.1 and its key into a folder.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	testenv.NoError(t, err)
	write := func(name, kind string, der []byte, mode os.FileMode) {
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), block, mode))
	}
	write("cert.pem", "CERTIFICATE", server.Certificate().Raw, 0o644)
	write("key.pem", "PRIVATE KEY", key, 0o600)
}

// receivedMails waits until the mail server has n mails, and returns all mails.
func (e *exim) receivedMails(t *testing.T, n int) (list []*mail.Message) {
	var found []string
	testenv.Until(t, fmt.Sprintf("%d mails", n), func() bool {
		found, _ = filepath.Glob(filepath.Join(e.dir, "box/new/*"))
		return len(found) >= n
	})
	for _, file := range found {
		data, err := os.ReadFile(file)
		testenv.NoError(t, err)
		m, err := mail.ReadMessage(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%v:\n%s", err, data)
		}
		list = append(list, m)
	}
	return list
}

// TestMailServerAcceptsOrRefuses sends mails to a real mail server, and expects new attempts after all but
// permanent refusals. The connections use STARTTLS and TLS. A permanent refusal is final, a temporary one is
// tried again.
func TestMailServerAcceptsOrRefuses(t *testing.T) {
	e := startExim(t)
	out := newTestSender(t, Options{})
	notes := testNotifications()
	spec := func(change func(*model.Email)) *model.HandlerSpec {
		s := &model.Email{Server: e.starttls, Username: "muster", Password: inlineSecret("s3cret"), From: "Muster <muster@example.org>", To: []string{"ann@example.org"}, CA: e.ca}
		change(s)
		return &model.HandlerSpec{Email: s}
	}
	for what, c := range map[string]struct {
		change func(*model.Email)
		final  bool
		wrong  string
	}{
		"refused":    {func(s *model.Email) { s.To = []string{"refused@example.org"} }, true, "nobody of that name"},
		"all of two": {func(s *model.Email) { s.To = []string{"refused@example.org", "refused@example.org"} }, true, "nobody of that name"},
		"later":      {func(s *model.Email) { s.To = []string{"later@example.org"} }, false, "come back later"},
		"password":   {func(s *model.Email) { s.Password = inlineSecret("wr0ng-one") }, true, "535"},
		"anonymous":  {func(s *model.Email) { s.Username, s.Password = "", model.Secret{} }, true, "log in first"},
		"untrusted":  {func(s *model.Email) { s.CA = "" }, false, "certificate"},
		"no TLS":     {func(s *model.Email) { s.Security = "tls" }, false, "tls"},
		"gone":       {func(s *model.Email) { s.Server = "127.0.0.1:1" }, false, "refused"},
	} {
		receipt, err := out.Send(t.Context(), spec(c.change), notes[Opened].message(t))
		if err == nil || IsFinal(err) != c.final || !strings.Contains(strings.ToLower(err.Error()), c.wrong) || strings.Contains(err.Error()+receipt.Sent, "wr0ng") {
			t.Errorf("%s: %v (final %v)", what, err, IsFinal(err))
		}
	}
	for _, c := range []struct {
		kind   string
		change func(*model.Email)
	}{
		{Opened, func(s *model.Email) { s.To = []string{"ann@example.org", "refused@example.org"} }}, {Closed, func(s *model.Email) { s.Server, s.Security, s.CC = e.tls, "tls", []string{"bob@example.org"} }},
	} {
		receipt, err := out.Send(t.Context(), spec(c.change), notes[c.kind].message(t))
		if err != nil || receipt.Answer == "" {
			t.Fatalf("%s: %v, %q", c.kind, err, receipt.Answer)
		}
	}
	ids := map[string]bool{}
	for _, m := range e.receivedMails(t, 3) {
		body, _ := io.ReadAll(m.Body)
		id := m.Header.Get("Message-ID")
		ids[id] = true
		if id != "<01J9ZK3T7Q8V.opened@example.org>" && m.Header.Get("References") != "<01J9ZK3T7Q8V.opened@example.org>" {
			t.Errorf("not of the thread: %v", m.Header)
		}
		if !strings.Contains(string(body), "web01/disk") || !strings.HasPrefix(m.Header.Get("Content-Type"), "multipart/alternative") {
			t.Errorf("%v\n%s", m.Header, body)
		}
	}
	if len(ids) != 2 {
		t.Errorf("ids %v", ids)
	}
}

// TestMailUsesTheDialerOfHandlers sets a dialer that refuses every address, and expects a mail to fail with the
// dialer's error. The test sends with and without TLS.
func TestMailUsesTheDialerOfHandlers(t *testing.T) {
	out := newTestSender(t, Options{Dialer: &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		return fmt.Errorf("%s is out of bounds", address)
	}}})
	for _, security := range []string{"", "none", "tls"} {
		_, err := out.Send(t.Context(), &model.HandlerSpec{Email: &model.Email{
			Server: "127.0.0.1:1", Security: security, From: "muster@example.org", To: []string{"ann@example.org"},
		}}, testNotifications()[Opened].message(t))
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 is out of bounds") {
			t.Errorf("security %q: %v", security, err)
		}
	}
}

// TestEachMailRecipientIsRetriedAlone lets the mail server refuse one recipient temporarily, and expects a retry for
// that recipient only.
func TestEachMailRecipientIsRetriedAlone(t *testing.T) {
	e := startExim(t)
	out := newTestSender(t, Options{})
	spec := func(to ...string) *model.HandlerSpec {
		return &model.HandlerSpec{Email: &model.Email{Server: e.starttls, Username: "muster", Password: inlineSecret("s3cret"), From: "Muster <muster@example.org>", To: to, CA: e.ca}}
	}
	note := testNotifications()[Opened].message(t)
	for range 2 {
		receipt, err := out.Send(t.Context(), spec("ann@example.org", "refused@example.org", "later@example.org"), note)
		if err == nil || IsFinal(err) || !strings.Contains(err.Error(), "later@example.org") || !strings.Contains(err.Error(), "nobody of that name") {
			t.Errorf("one is put off, one refused: %v\n%s", err, receipt.Answer)
		}
	}
	if n := len(e.receivedMails(t, 1)); n != 1 {
		t.Errorf("ann has it %d times", n)
	}
	if _, err := out.Send(t.Context(), spec("refused@example.org", "later@example.org"), newMessage("another", "{}")); err == nil || IsFinal(err) {
		t.Errorf("nobody has it, and one is put off: %v", err)
	}
	receipt, err := out.Send(t.Context(), spec("bob@example.org", "refused@example.org"), newMessage("a third", "{}"))
	if err != nil || receipt.Refused == nil || !strings.Contains(receipt.Refused.Error(), "refused@example.org") {
		t.Errorf("who is refused is named: %v, %v", err, receipt.Refused)
	}
	e.receivedMails(t, 2)
}
