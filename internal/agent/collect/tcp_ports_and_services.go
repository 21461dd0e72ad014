package collect

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// portParameter returns the port number in a parameter of an item key
func portParameter(k *Key, i int, otherwise string) (string, error) {
	port := k.Parameter(i, otherwise)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%s: the port %q is not a number from 1 to 65535", k.Name, port)
	}
	return port, nil
}

// boolNumber converts true to 1 and false to 0, as values of an item.
func boolNumber(ok bool) item.Value {
	if ok {
		return item.FromUnsigned(1)
	}
	return item.FromUnsigned(0)
}

// tcpPort collects the item net.tcp.port[ADDRESS,PORT], with 1 if the port accepts connections and 0 otherwise.
func tcpPort(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	port, err := portParameter(k, 1, "")
	if err != nil {
		return item.Value{}, err
	}
	return boolNumber(checkService(ctx, net.JoinHostPort(k.Parameter(0, "127.0.0.1"), port), greeting{}) == nil), nil
}

// greeting describes the first line that a service, such as SMTP, must send on a new connection.
type greeting struct {
	port   string
	starts []string // of its first line, any of them; nil: it does not speak first
	tls    bool
}

// greetings maps the names of the services of net.tcp.service to their port and greeting.
var greetings = map[string]greeting{
	"ftp": {"21", []string{"220"}, false}, "http": {"80", nil, false}, "https": {"443", nil, true}, "imap": {"143", []string{"* OK"}, false},
	"nntp": {"119", []string{"200", "201"}, false}, "pop": {"110", []string{"+OK"}, false}, "smtp": {"25", []string{"220"}, false},
	"ssh": {"22", []string{"SSH-"}, false}, "tcp": {},
}

// checkService connects to a service and checks its greeting. It returns nil if the service answers as expected.
func checkService(ctx context.Context, address string, g greeting) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if g.tls { // as in Zabbix, the certificate is not verified: probe cert does it
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	}
	if g.starts == nil {
		return nil
	}
	line, err := bufio.NewReaderSize(conn, 1<<10).ReadSlice('\n')
	for _, start := range g.starts {
		if err == nil && strings.HasPrefix(string(line), start) {
			return nil
		}
	}
	return fmt.Errorf("%s sent the first line %q, expected %s", address, line, strings.Join(g.starts, " or "))
}

// tcpService collects the items net.tcp.service[SERVICE,ADDRESS,PORT] (availability of a service) and
// net.tcp.service.perf (its response time). The value of net.tcp.service.perf is the response time in seconds,
// 0 without an answer.
func tcpService(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	g, ok := greetings[k.Parameter(0, "")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 0, "ftp", "http", "https", "imap", "nntp", "pop", "smtp", "ssh", "tcp")
	}
	port, err := portParameter(k, 2, g.port)
	if err != nil {
		return item.Value{}, err
	}
	began := time.Now()
	failed := checkService(ctx, net.JoinHostPort(k.Parameter(1, "127.0.0.1"), port), g)
	switch {
	case k.Name == "net.tcp.service":
		return boolNumber(failed == nil), nil
	case failed != nil:
		return item.FromFloat(0), nil
	}
	return item.FromFloat(time.Since(began).Seconds()), nil
}
