//go:build !unix

package testenv

import (
	"fmt"
	"net"
)

// reservePort checks that a port is free now, on systems other than Unix. It cannot reserve the port.
func reservePort(port int) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return func() {}, l.Close()
}
