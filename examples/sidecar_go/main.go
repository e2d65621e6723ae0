// Count orders per customer at a sidecar: go run . app.sock customer-totals
//
// The worker (kstreams-assign worker) is the member; this program polls, adds up, and commits.
// It may die at any moment.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"
)

type fields map[string]any

// refusal is an answer that says no; Code is one of a closed list.
type refusal struct {
	Code    string `msgpack:"code"`
	Message string `msgpack:"message"`
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

type reply struct {
	ID    *uint64            `msgpack:"id"`
	OK    msgpack.RawMessage `msgpack:"ok"`
	Error *refusal           `msgpack:"error"`
	Event string             `msgpack:"event"`
}

type sidecar struct {
	conn   net.Conn
	number uint64
}

// request sends one request and reads its answer into ok; events in between are not looked at.
func (s *sidecar) request(op string, more fields, ok any) error {
	s.number++
	message := fields{"id": s.number, "op": op}
	for name, value := range more {
		message[name] = value
	}
	packed, err := msgpack.Marshal(message)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(packed)))
	if _, err := s.conn.Write(append(frame, packed...)); err != nil {
		return err
	}
	for {
		answer, err := s.receive()
		if err != nil {
			return err
		}
		if answer.Event != "" {
			continue
		}
		if answer.Error != nil {
			return answer.Error
		}
		if ok == nil {
			return nil
		}
		return msgpack.Unmarshal(answer.OK, ok)
	}
}

func (s *sidecar) receive() (answer reply, err error) {
	var length [4]byte
	if _, err = io.ReadFull(s.conn, length[:]); err != nil {
		return answer, fmt.Errorf("the worker has hung up: %w", err)
	}
	packed := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err = io.ReadFull(s.conn, packed); err != nil {
		return answer, fmt.Errorf("the worker has hung up: %w", err)
	}
	return answer, msgpack.Unmarshal(packed, &answer)
}

type columns struct {
	Task string   `msgpack:"task"`
	Key  [][]byte `msgpack:"key"`
}

func (s *sidecar) count(orders columns, sink string) error {
	customers := map[string]int{}
	for _, key := range orders.Key {
		if key != nil { // a record without a key is of no customer
			customers[string(key)]++
		}
	}
	var keys, before, values [][]byte
	for customer := range customers {
		keys = append(keys, []byte(customer))
	}
	store := fields{"task": orders.Task, "store": "totals", "keys": keys}
	if err := s.request("get", store, &before); err != nil {
		return err
	}
	for i, key := range keys {
		total, _ := strconv.Atoi(string(before[i])) // none is 0
		values = append(values, strconv.AppendInt(nil, int64(total+customers[string(key)]), 10))
	}
	store["values"] = values
	if err := s.request("put", store, nil); err != nil {
		return err
	}
	return s.request("emit", fields{"task": orders.Task, "topic": sink, "keys": keys, "values": values}, nil)
}

func (s *sidecar) round(sink string) error {
	var polled struct {
		Partitions []columns `msgpack:"partitions"`
	}
	if err := s.request("poll", fields{"max_records": 5000, "timeout_ms": 500, "columns": true}, &polled); err != nil {
		return err
	}
	for _, orders := range polled.Partitions {
		err := s.count(orders, sink)
		if no, refused := err.(*refusal); refused && no.Code == "task_migrated" {
			continue // its next owner reads these orders again
		} else if err != nil {
			return err
		}
	}
	return s.request("commit", nil, nil)
}

func main() {
	conn, err := net.Dial("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var ending atomic.Bool
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() { <-interrupts; ending.Store(true) }()

	session := &sidecar{conn: conn}
	err = session.request("hello", fields{"version": 1}, nil)
	for err == nil && !ending.Load() {
		err = session.round(os.Args[2])
	}
	if err == nil {
		err = session.request("close", nil, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
}
