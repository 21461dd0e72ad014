package admin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/model"
)

// checkClientUser returns an error if the local client of a connection runs as another user. The client must run as
// the server's user or as root.
func checkClientUser(client, server netip.AddrPort) *model.Error {
	user, err := socketUser(client, server)
	switch {
	case errors.Is(err, errClosed):
		return model.Errorf(model.Forbidden, "the admin listener cannot find the user of this connection: %w", err).
			WithHint("repeat the command; the program must keep its connection open until it has the answer")
	case err != nil:
		return model.Errorf(model.Forbidden, "the admin listener cannot find the user of this connection: %w", err).
			WithHint("repeat the command on the server's machine; if it fails again, load the kernel module tcp_diag: modprobe tcp_diag")
	}
	if user != 0 && user != uint32(os.Geteuid()) {
		return model.Errorf(model.Forbidden, "the admin listener accepts only programs of the server's user and of root").
			WithHint("run the command as one of these users: sudo -u USER muster debug bundle")
	}
	return nil
}

// errClosed is the error of a socket that no program holds any more.
var errClosed = errors.New("the client has closed the connection")

// socketID names a TCP socket in messages of sock_diag(7), struct inet_diag_sockid. Ports and addresses have network byte order.
type socketID struct {
	LocalPort, RemotePort [2]byte
	Local, Remote         [16]byte
	Interface             uint32
	Cookie                [2]uint32
}

// socketRequest is a sock_diag(7) request to the kernel for data about one TCP socket, such as its user. It has
// the layout of struct nlmsghdr and struct inet_diag_req_v2.
type socketRequest struct {
	Length                                uint32
	Type, Flags                           uint16
	Sequence, Port                        uint32
	Family, Protocol, Extensions, Padding uint8
	States                                uint32
	ID                                    socketID
}

// socketAnswer is the kernel's answer to a socketRequest. It has the layout of struct nlmsghdr and struct
// inet_diag_msg.
type socketAnswer struct {
	Length                               uint32
	Type, Flags                          uint16
	Sequence, Port                       uint32
	Family, State, Timer, Retransmits    uint8
	ID                                   socketID
	Expires, Unread, Unsent, User, Inode uint32
}

// socketUser returns the user id of an open TCP socket of the local machine. The kernel finds the socket in its hash
// table, so the time does not grow with the number of sockets. The kernel reports root and no inode for a socket that
// its program has closed. socketUser returns an error for such a socket. A socket that its program has closed for
// writing alone has both.
func socketUser(local, remote netip.AddrPort) (uint32, error) {
	const anyCookie = ^uint32(0) // INET_DIAG_NOCOOKIE
	in := socketRequest{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST, Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP,
		ID: socketID{Cookie: [2]uint32{anyCookie, anyCookie}}}
	if local.Addr().Is4() {
		in.Family = unix.AF_INET
	}
	in.Length = uint32(binary.Size(in))
	binary.BigEndian.PutUint16(in.ID.LocalPort[:], local.Port())
	binary.BigEndian.PutUint16(in.ID.RemotePort[:], remote.Port())
	copy(in.ID.Local[:], local.Addr().AsSlice())
	copy(in.ID.Remote[:], remote.Addr().AsSlice())
	request, err := binary.Append(nil, binary.NativeEndian, in)
	if err != nil {
		return 0, err
	}
	netlink, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer unix.Close(netlink)
	if err := unix.Sendto(netlink, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel for the socket: %w", err)
	}
	var buffer [1024]byte
	n, _, err := unix.Recvfrom(netlink, buffer[:], unix.MSG_DONTWAIT) // the kernel has answered before Sendto returns
	if err != nil {
		return 0, fmt.Errorf("read the kernel's answer: %w", err)
	}
	const header = unix.SizeofNlMsghdr
	if n >= header+4 && binary.NativeEndian.Uint16(buffer[4:]) == unix.NLMSG_ERROR {
		return 0, fmt.Errorf("the kernel did not find the socket: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(buffer[header:]))))
	}
	var out socketAnswer
	if _, err := binary.Decode(buffer[:n], binary.NativeEndian, &out); err != nil {
		return 0, fmt.Errorf("decode the kernel's answer of %d bytes: %w", n, err)
	}
	if out.Inode == 0 || out.State == unix.BPF_TCP_LISTEN { // a program that listens on the port has another socket
		return 0, errClosed
	}
	return out.User, nil
}
