-- What waits for a session stands in `waiting` alone.

DROP TABLE queue;
DROP TABLE answer;
