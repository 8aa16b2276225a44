CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO "message" VALUES('msg_2010893400016nAmuLdKvbvLKr','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600104,1735689603305,'{"role":"user","time":{"created":1735689600104},"agent":"build","model":{"providerID":"fake","modelID":"m"},"summary":{"diffs":[{"file":"new.txt","patch":"Index: new.txt\n===================================================================\n--- new.txt\t\n+++ new.txt\t\n@@ -0,0 +1,1 @@\n+hi\n","additions":1,"deletions":0,"status":"added"}]}}');
INSERT INTO "message" VALUES('msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600857,1735689602472,'{"parentID":"msg_2010893400016nAmuLdKvbvLKr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ada/notes","root":"/home/ada/notes"},"cost":0,"tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"fake","time":{"created":1735689600857,"completed":1735689602471},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_201089c8d001CFcBl8hqYJkNW8','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602484,1735689602796,'{"parentID":"msg_2010893400016nAmuLdKvbvLKr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ada/notes","root":"/home/ada/notes"},"cost":0,"tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"fake","time":{"created":1735689602484,"completed":1735689602795},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_201089dc8001V2Uck0PtsgcsfB','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602799,1735689603183,'{"parentID":"msg_2010893400016nAmuLdKvbvLKr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ada/notes","root":"/home/ada/notes"},"cost":0,"tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"fake","time":{"created":1735689602799,"completed":1735689603182},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_201089e23001slyOqHR7yH7Fv7','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689602891,1735689603246,'{"role":"user","time":{"created":1735689602891},"agent":"general","model":{"providerID":"fake","modelID":"m"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_201089e3b001l1ZNnCm4MgeKY6','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689602914,1735689603096,'{"parentID":"msg_201089e23001slyOqHR7yH7Fv7","role":"assistant","mode":"general","agent":"general","path":{"cwd":"/home/ada/notes","root":"/home/ada/notes"},"cost":0,"tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"fake","time":{"created":1735689602914,"completed":1735689603095},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_201089f4b001PMgXm2dTSe8EGT','ses_dfef76d26ffez3v2faX6sS7HbW',1735689603186,1735689603361,'{"parentID":"msg_2010893400016nAmuLdKvbvLKr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ada/notes","root":"/home/ada/notes"},"cost":0,"tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"fake","time":{"created":1735689603186,"completed":1735689603360},"finish":"stop"}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO "part" VALUES('prt_2010896070013s2Tet357Nx69g','msg_2010893400016nAmuLdKvbvLKr','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600821,1735689600823,'{"type":"text","synthetic":true,"text":"Called the Read tool with the following input: {\"filePath\":\"/home/ada/notes/notes.txt\"}"}');
INSERT INTO "part" VALUES('prt_2010896080017NUxO8TKYYpKcS','msg_2010893400016nAmuLdKvbvLKr','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600824,1735689600825,'{"type":"text","synthetic":true,"text":"<path>/home/ada/notes/notes.txt</path>\n<type>file</type>\n<content>\n1: buy milk\n\n(End of file - total 1 lines)\n</content>"}');
INSERT INTO "part" VALUES('prt_201089608002mQrEVZ7Znb6Cs0','msg_2010893400016nAmuLdKvbvLKr','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600826,1735689600827,'{"type":"file","mime":"text/plain","filename":"notes.txt","url":"file:///home/ada/notes/notes.txt"}');
INSERT INTO "part" VALUES('prt_201089608003c1d9QmBhVCTCh1','msg_2010893400016nAmuLdKvbvLKr','ses_dfef76d26ffez3v2faX6sS7HbW',1735689600828,1735689600829,'{"type":"text","text":"\"What is in my notes? -- “quoted” 𝄞\""}');
INSERT INTO "part" VALUES('prt_201089a9a001BWIxV7Nsq7Kbph','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689601986,1735689601987,'{"snapshot":"4b5a6788d646b9898b86d398ca456544d8f86a54","type":"step-start"}');
INSERT INTO "part" VALUES('prt_201089a9e001W3HlD4aXQvmqNu','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689601989,1735689601994,'{"type":"reasoning","text":"I had better look.","time":{"start":1735689601989,"end":1735689601993}}');
INSERT INTO "part" VALUES('prt_201089aa4001WRQN8CbLSI46lw','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689601995,1735689602035,'{"type":"text","text":"Let me look.","time":{"start":1735689601995,"end":1735689602034}}');
INSERT INTO "part" VALUES('prt_201089aa8001tfMtaz83nrXkCe','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689601999,1735689602189,'{"type":"tool","tool":"read","callID":"call_0_0","state":{"status":"completed","input":{"filePath":"notes.txt"},"output":"<path>/home/ada/notes/notes.txt</path>\n<type>file</type>\n<content>\n1: buy milk\n\n(End of file - total 1 lines)\n</content>","metadata":{"preview":"buy milk","truncated":false,"loaded":[],"display":{"type":"file","path":"/home/ada/notes/notes.txt","text":"buy milk","lineStart":1,"lineEnd":1,"totalLines":1,"truncated":false}},"title":"notes.txt","time":{"start":1735689602007,"end":1735689602188}}}');
INSERT INTO "part" VALUES('prt_201089ab5001CGb5AQCcJboQs0','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602012,1735689602155,'{"type":"tool","tool":"bash","callID":"call_0_1","state":{"status":"completed","input":{"command":"echo hi > new.txt","description":"writes a file"},"output":"(no output)","metadata":{"output":"(no output)","exit":0,"truncated":false},"title":"echo hi > new.txt","time":{"start":1735689602025,"end":1735689602153}}}');
INSERT INTO "part" VALUES('prt_201089c19001nMdQWv8iZihBT7','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602368,1735689602370,'{"reason":"tool-calls","snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_201089c7a001uN7oRHQYH1JT4j','msg_201089632001SkhMhwyXXqqGwC','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602466,1735689602468,'{"type":"patch","hash":"4b5a6788d646b9898b86d398ca456544d8f86a54","files":["/home/ada/notes/new.txt"]}');
INSERT INTO "part" VALUES('prt_201089d0d001jPrjR5nf383k5a','msg_201089c8d001CFcBl8hqYJkNW8','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602612,1735689602613,'{"snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-start"}');
INSERT INTO "part" VALUES('prt_201089d12001Js6d9EsH0qKEuC','msg_201089c8d001CFcBl8hqYJkNW8','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602617,1735689602647,'{"type":"tool","tool":"todowrite","callID":"call_1_0","state":{"status":"completed","input":{"todos":[{"content":"buy milk","status":"pending","priority":"high"}]},"output":"[\n  {\n    \"content\": \"buy milk\",\n    \"status\": \"pending\",\n    \"priority\": \"high\"\n  }\n]","metadata":{"todos":[{"content":"buy milk","status":"pending","priority":"high"}],"truncated":false},"title":"1 todos","time":{"start":1735689602635,"end":1735689602646}}}');
INSERT INTO "part" VALUES('prt_201089d27001d95sAffUtONHAg','msg_201089c8d001CFcBl8hqYJkNW8','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602639,1735689602682,'{"type":"tool","tool":"read","callID":"call_1_1","state":{"status":"error","input":{"filePath":"missing.txt"},"error":"File not found: /home/ada/notes/missing.txt","time":{"start":1735689602649,"end":1735689602678}}}');
INSERT INTO "part" VALUES('prt_201089d9d001qD41VCvtVzVFct','msg_201089c8d001CFcBl8hqYJkNW8','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602756,1735689602758,'{"reason":"tool-calls","snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_201089e12001kGn63X1V59crhu','msg_201089dc8001V2Uck0PtsgcsfB','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602873,1735689602875,'{"snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-start"}');
INSERT INTO "part" VALUES('prt_201089e15001cuSAsD5C4TfkAS','msg_201089dc8001V2Uck0PtsgcsfB','ses_dfef76d26ffez3v2faX6sS7HbW',1735689602877,1735689603105,'{"type":"tool","tool":"task","callID":"call_2_0","state":{"status":"completed","input":{"description":"count","prompt":"Count the words.","subagent_type":"general"},"output":"<task id=\"ses_dfef761e4ffeyypsO0TpBTNG7Q\" state=\"completed\">\n<task_result>\nTwo words.\n</task_result>\n</task>","metadata":{"parentSessionId":"ses_dfef76d26ffez3v2faX6sS7HbW","sessionId":"ses_dfef761e4ffeyypsO0TpBTNG7Q","model":{"modelID":"m","providerID":"fake"},"truncated":false},"title":"count","time":{"start":1735689602886,"end":1735689603104}}}');
INSERT INTO "part" VALUES('prt_201089e27001tRss8eP43TfETk','msg_201089e23001slyOqHR7yH7Fv7','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689602896,1735689602897,'{"type":"text","text":"Count the words."}');
INSERT INTO "part" VALUES('prt_201089ea1001usEIinSnMWgh3X','msg_201089e3b001l1ZNnCm4MgeKY6','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689603017,1735689603018,'{"snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-start"}');
INSERT INTO "part" VALUES('prt_201089ea4001CTpTgODez7A792','msg_201089e3b001l1ZNnCm4MgeKY6','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689603019,1735689603022,'{"type":"text","text":"Two words.","time":{"start":1735689603019,"end":1735689603021}}');
INSERT INTO "part" VALUES('prt_201089ecc001YXFiER4xa12aZn','msg_201089e3b001l1ZNnCm4MgeKY6','ses_dfef761e4ffeyypsO0TpBTNG7Q',1735689603059,1735689603061,'{"reason":"stop","snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_201089f1f001mrmomXrw3RM1vY','msg_201089dc8001V2Uck0PtsgcsfB','ses_dfef76d26ffez3v2faX6sS7HbW',1735689603142,1735689603143,'{"reason":"tool-calls","snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_201089fa9001px97aIJ6wsSv4l','msg_201089f4b001PMgXm2dTSe8EGT','ses_dfef76d26ffez3v2faX6sS7HbW',1735689603280,1735689603281,'{"snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-start"}');
INSERT INTO "part" VALUES('prt_201089fab001VG5JQSZpzIVMCa','msg_201089f4b001PMgXm2dTSe8EGT','ses_dfef76d26ffez3v2faX6sS7HbW',1735689603282,1735689603286,'{"type":"text","text":"All done: buy milk, in two words.","time":{"start":1735689603282,"end":1735689603285}}');
INSERT INTO "part" VALUES('prt_201089fcd001E1qt3wOSHi5dRU','msg_201089f4b001PMgXm2dTSe8EGT','ses_dfef76d26ffez3v2faX6sS7HbW',1735689603316,1735689603317,'{"reason":"stop","snapshot":"e936c2c124b316dfcc4d722131a5c36a8f9e259f","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
CREATE TABLE `project` (
          `id` text PRIMARY KEY,
          `worktree` text NOT NULL,
          `vcs` text,
          `name` text,
          `icon_url` text,
          `icon_url_override` text,
          `icon_color` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_initialized` integer,
          `sandboxes` text NOT NULL,
          `commands` text
        );
INSERT INTO "project" VALUES('079f1706a420effb0cd6e590fd7db39db5095bee','/home/ada/notes','git',NULL,NULL,NULL,NULL,1735689599410,1735689605738,NULL,'[]',NULL);
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO "session" VALUES('ses_dfef76d26ffez3v2faX6sS7HbW','079f1706a420effb0cd6e590fd7db39db5095bee',NULL,NULL,'quick-mountain','/home/ada/notes','','A talk','1.18.33',NULL,0,0,0,NULL,NULL,0.0,400,80,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"m","providerID":"fake","variant":"default"}',1735689600000,1735689603394,NULL,NULL);
INSERT INTO "session" VALUES('ses_dfef761e4ffeyypsO0TpBTNG7Q','079f1706a420effb0cd6e590fd7db39db5095bee',NULL,'ses_dfef76d26ffez3v2faX6sS7HbW','happy-otter','/home/ada/notes','','count (@general subagent)','1.18.33',NULL,0,0,0,NULL,NULL,0.0,100,20,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"},{"permission":"task","pattern":"*","action":"deny"}]','general','{"id":"m","providerID":"fake","variant":"default"}',1735689602882,1735689603107,NULL,NULL);
CREATE TABLE `todo` (
          `session_id` text NOT NULL,
          `content` text NOT NULL,
          `status` text NOT NULL,
          `priority` text NOT NULL,
          `position` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `todo_pk` PRIMARY KEY(`session_id`, `position`),
          CONSTRAINT `fk_todo_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO "todo" VALUES('ses_dfef76d26ffez3v2faX6sS7HbW','buy milk','pending','high',0,1735689602631,1735689602631);
