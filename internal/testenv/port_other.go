//go:build !unix

package testenv

import (
	"fmt"
	"net"
)

// reservePort only looks whether the port is free.
func reservePort(port int) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return func() {}, l.Close()
}
