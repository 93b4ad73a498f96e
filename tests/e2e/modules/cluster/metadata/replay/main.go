// replay serves one list of blocks as snapshot metadata, encoded before anybody asks, to whoever asks for anything:
//
//	replay -listen HOST:PORT -cert FILE -key FILE -tuples N -per-message N
//
// gRPC in HTTP/2 over TLS, by hand, so that a request costs the copying and sealing of bytes. Tuples are of 4 KiB,
// 8 KiB apart; with -tuples 0 one message without any. Prints a line when it listens, and one per answer: the bytes
// sent, and the seconds of processor and clock that it took.
//
//	replay -socket FILE -driver NAME -tuples N -per-message N
//
// serves the same on a socket without TLS, as a CSI driver of that name which can nothing else.
//
//	replay -drain HOST:PORT -ca FILE -tuples N
//
// asks such a server, reads the bytes and throws them away: what the server can do. Prints bytes and seconds.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	tupleBytes   = 4096
	strideBytes  = 2 * tupleBytes
	frameBytes   = 16384 // What every peer takes.
	bufferBytes  = 16 * frameBytes
	windowMax    = 1<<31 - 1
	windowAtOpen = 65535
)

func appendTuple(out []byte, number int64) []byte {
	var tuple [32]byte
	inner := tuple[:0]
	if number > 0 {
		inner = binary.AppendUvarint(append(inner, 1<<3), uint64(number*strideBytes))
	}
	inner = binary.AppendUvarint(append(inner, 2<<3), tupleBytes)
	out = append(out, 3<<3|2, byte(len(inner)))
	return append(out, inner...)
}

// encode returns the messages of a whole stream, each behind gRPC's five bytes.
func encode(tuples, perMessage int64) []byte {
	capacity := uint64((tuples-1)*strideBytes + tupleBytes)
	if tuples == 0 {
		capacity = 1 << 50 // No device is larger, so none has an end that the driver does not know.
	}
	out := make([]byte, 0, tuples*15+tuples/max(perMessage, 1)*16)
	for first := int64(0); first == 0 || first < tuples; first += perMessage {
		head := len(out)
		out = append(out, 0, 0, 0, 0, 0)
		out = append(out, 1<<3, 2) // Variable length.
		out = binary.AppendUvarint(append(out, 2<<3), capacity)
		for number := first; number < min(first+perMessage, tuples); number++ {
			out = appendTuple(out, number)
		}
		binary.BigEndian.PutUint32(out[head+1:], uint32(len(out)-head-5))
	}
	return out
}

// answers to what is asked of a CSI driver before its lists, by path.
func identity(driver string) map[string][]byte {
	framed := func(message ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	info := append([]byte{1<<3 | 2, byte(len(driver))}, driver...)
	return map[string][]byte{
		"/csi.v1.Identity/GetPluginInfo":         framed(append(info, 2<<3|2, 1, '1')...),
		"/csi.v1.Identity/GetPluginCapabilities": framed(1<<3|2, 4, 1<<3|2, 2, 1<<3, 4), // SNAPSHOT_METADATA_SERVICE
		"/csi.v1.Identity/Probe":                 framed(),
	}
}

// peer is one client.
type peer struct {
	body   []byte
	others map[string][]byte // Answers to other paths than those of lists.
	paths  map[uint32]string // Of the streams; guarded by mutex.

	mutex   sync.Mutex // Guards what follows, and writing.
	changed *sync.Cond
	out     *bufio.Writer
	framer  *http2.Framer
	closed  bool
	window  int64 // Of the connection.
	initial int64 // Of a stream that opens.
	streams map[uint32]int64
}

func processorSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func headers(fields ...string) []byte {
	var block writer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block
}

type writer []byte

func (w *writer) Write(data []byte) (int, error) {
	*w = append(*w, data...)
	return len(data), nil
}

// claim waits until the windows let bytes through, and takes them; 0 when the client left.
func (p *peer) claim(stream uint32, wanted int64) int64 {
	for {
		left, open := p.streams[stream]
		if p.closed || !open {
			return 0
		}
		if take := min(wanted, frameBytes, left, p.window); take > 0 {
			p.streams[stream] -= take
			p.window -= take
			return take
		}
		_ = p.out.Flush()
		p.changed.Wait()
	}
}

func (p *peer) answer(stream uint32) {
	start, before := time.Now(), processorSeconds()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	body, other := p.others[p.paths[stream]]
	if !other {
		body = p.body
	}
	_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true,
		BlockFragment: headers(":status", "200", "content-type", "application/grpc")})
	for at := int64(0); at < int64(len(body)); {
		take := p.claim(stream, int64(len(body))-at)
		if take == 0 {
			return
		}
		head := [9]byte{byte(take >> 16), byte(take >> 8), byte(take), byte(http2.FrameData)}
		binary.BigEndian.PutUint32(head[5:], stream)
		_, _ = p.out.Write(head[:])
		_, _ = p.out.Write(body[at : at+take])
		at += take
	}
	_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: true,
		BlockFragment: headers("grpc-status", "0")})
	_ = p.out.Flush()
	delete(p.streams, stream)
	delete(p.paths, stream)
	fmt.Printf("answered bytes=%d processor=%.3f seconds=%.3f\n", len(body), processorSeconds()-before,
		time.Since(start).Seconds())
}

// take acts on one frame; p.mutex is held.
func (p *peer) take(frame http2.Frame) {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if frame.IsAck() {
			return
		}
		if value, set := frame.Value(http2.SettingInitialWindowSize); set {
			for stream := range p.streams {
				p.streams[stream] += int64(value) - p.initial
			}
			p.initial = int64(value)
		}
		_ = p.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if !frame.IsAck() {
			_ = p.framer.WritePing(true, frame.Data)
		}
	case *http2.WindowUpdateFrame:
		if frame.StreamID == 0 {
			p.window += int64(frame.Increment)
		} else if _, open := p.streams[frame.StreamID]; open {
			p.streams[frame.StreamID] += int64(frame.Increment)
		}
	case *http2.MetaHeadersFrame:
		p.streams[frame.StreamID] = p.initial
		p.paths[frame.StreamID] = frame.PseudoValue("path")
	case *http2.DataFrame:
		if frame.StreamEnded() {
			go p.answer(frame.StreamID)
		}
		return // Requests are small: nobody waits for a window.
	case *http2.RSTStreamFrame:
		delete(p.streams, frame.StreamID)
	}
	_ = p.out.Flush()
	p.changed.Broadcast()
}

func serveOne(connection net.Conn, body []byte, others map[string][]byte) {
	defer connection.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(connection, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	p := &peer{body: body, others: others, paths: map[uint32]string{}, out: bufio.NewWriterSize(connection, bufferBytes), window: windowAtOpen,
		initial: windowAtOpen, streams: map[uint32]int64{}}
	p.changed = sync.NewCond(&p.mutex)
	p.framer = http2.NewFramer(p.out, bufio.NewReader(connection))
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.mutex.Lock()
	_ = p.framer.WriteSettings()
	_ = p.out.Flush()
	p.mutex.Unlock()
	for {
		frame, err := p.framer.ReadFrame()
		p.mutex.Lock()
		if err != nil {
			p.closed = true
			p.changed.Broadcast()
			p.mutex.Unlock()
			return
		}
		p.take(frame)
		p.mutex.Unlock()
	}
}

func listenTLS(listen, certFile, keyFile string) (net.Listener, error) {
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return tls.Listen("tcp", listen, &tls.Config{Certificates: []tls.Certificate{certificate},
		NextProtos: []string{"h2"}, DynamicRecordSizingDisabled: true, MinVersion: tls.VersionTLS12})
}

func serve(listener net.Listener, body []byte, others map[string][]byte) error {
	fmt.Printf("listening bytes=%d\n", len(body))
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go serveOne(connection, body, others)
	}
}

// request writes what a client sends that never has to open its window again.
func request(connection net.Conn) error {
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		return err
	}
	framer := http2.NewFramer(connection, nil)
	return errors.Join(
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: windowMax}),
		framer.WriteWindowUpdate(0, windowMax-windowAtOpen),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers(
			":method", "POST", ":scheme", "https", ":path", "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated",
			":authority", "replay", "content-type", "application/grpc", "te", "trailers")}),
		framer.WriteData(1, true, []byte{0, 0, 0, 0, 0}))
}

func drain(address, caFile string, tuples int64) error {
	bundle, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	defer connection.Close()
	start := time.Now()
	if err := request(connection); err != nil {
		return err
	}
	reader := bufio.NewReaderSize(connection, bufferBytes)
	var head [9]byte
	var bytes int64
	for {
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return err
		}
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if _, err := reader.Discard(length); err != nil {
			return err
		}
		if http2.FrameType(head[3]) == http2.FrameData {
			bytes += int64(length)
		} else if http2.FrameType(head[3]) == http2.FrameHeaders && http2.Flags(head[4]).Has(http2.FlagHeadersEndStream) {
			break
		}
	}
	seconds := time.Since(start).Seconds()
	fmt.Printf("drained bytes=%d tuples=%d seconds=%.3f processor=%.3f\n", bytes, tuples, seconds, processorSeconds())
	return nil
}

func run() error {
	listen := flag.String("listen", "", "where to serve")
	certFile := flag.String("cert", "", "certificate of the server")
	keyFile := flag.String("key", "", "its key")
	socket := flag.String("socket", "", "where to serve as a CSI driver")
	driver := flag.String("driver", "", "its name")
	drained := flag.String("drain", "", "server to read from")
	caFile := flag.String("ca", "", "whom to trust then")
	tuples := flag.Int64("tuples", 0, "tuples of the list")
	perMessage := flag.Int64("per-message", 4096, "tuples in a message")
	flag.Parse()
	if *drained != "" {
		return drain(*drained, *caFile, *tuples)
	}
	var listener net.Listener
	var err error
	if *socket != "" {
		listener, err = net.Listen("unix", *socket)
	} else {
		listener, err = listenTLS(*listen, *certFile, *keyFile)
	}
	if err != nil {
		return err
	}
	return serve(listener, encode(*tuples, *perMessage), identity(*driver))
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}
